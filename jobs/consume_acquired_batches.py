"""A member of a share group that appends its records to a Delta table, exactly once.

    spark-submit [--packages ...] jobs/consume_acquired_batches.py --bootstrap-servers localhost:9092 \\
        --group-id orders --topics orders --sink /data/orders --checkpoint /data/orders-checkpoint

Start as many instances as required, each with its own checkpoint. An instance runs until SIGTERM, stops between two
batches, and exits with code 0. It exits with code 1 after an error.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout, when the package is not installed

from sharegroup.job.command_parser import CommandParser

logger = logging.getLogger(__name__)


def main() -> int:
    """Run the member and return the exit code."""
    arguments = _arguments()
    from sharegroup.spark import DeltaSink, ShareConsumer, build_session
    from sharegroup.spark.job.stop_signal import StopSignal
    from sharegroup.spark.log_set_up import set_up_log

    set_up_log()
    spark = build_session(f"share consumer of {arguments.group_id}")
    try:
        stop = StopSignal(spark)
        consumer = ShareConsumer(
            spark,
            bootstrap_servers=arguments.bootstrap_servers,
            group_id=arguments.group_id,
            topics=arguments.topics.split(","),
            checkpoint=arguments.checkpoint,
            max_records=arguments.max_records,
            max_processing_ms=arguments.max_processing_ms,
            kafka=dict(arguments.kafka_property),
            client_id=arguments.client_id,
            include_headers=arguments.headers,
            share_group_requests_topic=arguments.share_group_requests_topic,
            share_partition_requests_topic=arguments.share_partition_requests_topic,
            share_group_responses_topic=arguments.share_group_responses_topic,
        )
        query = consumer.start(DeltaSink(consumer, _absolute(arguments.sink)))
        logger.info("member %s of group %s is running", query.member_id, arguments.group_id)
        while query.is_active and not stop.wait(0.2):
            pass
        query.stop()
        query.await_termination()
    except Exception:
        logger.exception("the member of group %s failed", arguments.group_id)
        return 1
    finally:
        spark.stop()
    return 0


def _arguments() -> argparse.Namespace:
    parser = CommandParser(description="Append the records of a share group to a Delta table, exactly once.")
    parser.add_argument("--bootstrap-servers", required=True, help="Kafka brokers as host:port, separated by commas")
    parser.add_argument("--group-id", required=True, help="share group id")
    parser.add_argument("--topics", required=True, help="topic names, separated by commas")
    parser.add_argument("--sink", required=True, help="path or URL of the Delta table")
    parser.add_argument(
        "--checkpoint", required=True, help="path or URL of the checkpoint, which only this instance may use"
    )
    parser.add_argument(
        "--max-records", type=int, default=1_000_000, help="maximum number of records in a batch (%(default)s)"
    )
    parser.add_argument(
        "--max-processing-ms",
        type=int,
        default=300_000,
        help="time after which the locks of a batch are no longer renewed (%(default)s)",
    )
    parser.add_argument("--client-id", default="consume_acquired_batches", help="client id of the member")
    parser.add_argument("--no-headers", dest="headers", action="store_false", help="do not read record headers")
    parser.add_argument(
        "--kafka-property", type=_property, action="append", default=[], metavar="NAME=VALUE",
        help="Kafka client property, such as security.protocol=SSL; may be repeated",
    )  # fmt: skip
    for topic in ("share_group_requests", "share_partition_requests", "share_group_responses"):
        option = f"--{topic.replace('_', '-')}-topic"
        parser.add_argument(option, default=f"__{topic}", help="topic of the share-group job (%(default)s)")
    return parser.parse_args()


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _absolute(path: str) -> str:
    """Return an absolute path, which is valid in every process. A URL is returned unchanged."""
    return path if "://" in path else str(Path(path).resolve())


if __name__ == "__main__":
    sys.exit(main())
