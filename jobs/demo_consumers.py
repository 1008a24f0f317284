"""The Spark members of the demo: several share consumers in one Spark session.

    spark-submit [--packages ...] jobs/demo_consumers.py --bootstrap-servers localhost:9092 --group-id demo \\
        --topic orders --checkpoint /data/demo --members 3

The handler accepts nearly all records. It releases some records at their first delivery, rejects a few, and always
releases one in twenty thousand, which is archived at the delivery count limit. It decides by offset, so that all runs
are the same. The program runs until SIGTERM, stops between two batches, and exits with code 0. After an error it exits
with code 1.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout, when the package is not installed

from sharegroup.job.command_parser import CommandParser

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger("demo_consumers")

NEVER_DONE = "offset % 20000 = 500"
REJECTED = "offset % 4000 BETWEEN 1000 AND 1019"
RELEASED_ONCE = "offset % 4000 BETWEEN 2000 AND 2199 AND delivery_count = 1"


def handle(records: DataFrame, batch_id: int) -> DataFrame:  # noqa: ARG001 - as ShareConsumer calls it
    """Return the records that are not accepted, each with its acknowledge type (release or reject)."""
    exceptions = f"""CASE
        WHEN {NEVER_DONE} THEN 'release'
        WHEN {REJECTED} THEN 'reject'
        WHEN {RELEASED_ONCE} THEN 'release'
    END AS acknowledge_type"""
    return records.selectExpr("topic", "partition", "offset", exceptions).where("acknowledge_type IS NOT NULL")


def main() -> int:
    """Run the members and return the exit code."""
    arguments = _arguments()
    from sharegroup.spark import ShareConsumer, build_session
    from sharegroup.spark.job.stop_signal import StopSignal
    from sharegroup.spark.log_set_up import set_up_log

    set_up_log()
    spark = build_session("demo consumers")
    try:
        stop = StopSignal(spark)
        queries = [
            ShareConsumer(
                spark,
                bootstrap_servers=arguments.bootstrap_servers,
                group_id=arguments.group_id,
                topics=[arguments.topic],
                checkpoint=f"{arguments.checkpoint}/member-{number}",
                max_records=arguments.max_records,
                client_id=f"spark_member_{number}",
            ).start(handle)
            for number in range(1, arguments.members + 1)
        ]
        logger.info("the members are running")
        while all(query.is_active for query in queries) and not stop.wait(0.2):
            pass
        for query in queries:
            query.stop()
        for query in queries:
            query.await_termination()
    except Exception:
        logger.exception("a member of the demo failed")
        return 1
    finally:
        spark.stop()
    return 0


def _arguments() -> argparse.Namespace:
    parser = CommandParser(description="The members of the demo.")
    parser.add_argument("--bootstrap-servers", required=True, help="Kafka brokers as host:port, separated by commas")
    parser.add_argument("--group-id", required=True, help="share group id")
    parser.add_argument("--topic", required=True, help="topic name")
    parser.add_argument("--checkpoint", required=True, help="directory of the members' checkpoints")
    parser.add_argument("--members", type=int, default=3, help="number of members (%(default)s)")
    parser.add_argument(
        "--max-records", type=int, default=5_000, help="maximum number of records in a batch (%(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
