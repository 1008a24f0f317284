"""A member of the demo that consumes with an unmodified Kafka client: confluent-kafka's ShareConsumer, at the gateway.

    python jobs/demo_kafka_client.py --bootstrap-servers localhost:9193 --group-id demo --topic orders

Any KIP-932 client works; only its bootstrap address changes. The member acknowledges single records, by the same rules
as the Spark members (demo_consumers.py). It runs until SIGTERM, prints the counts of its acknowledgements as JSON, and
exits with code 0.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout, when the package is not installed

from sharegroup.job.command_parser import CommandParser

#: Simulated work for each record, so that the demo takes long enough to be watched.
WORK_S = 0.001


def acknowledge_type(offset: int, delivery_count: int) -> str:
    """Return the acknowledge type of a record, by the rules of demo_consumers.py."""
    if offset % 20_000 == 500:
        return "RELEASE"
    if 1_000 <= offset % 4_000 <= 1_019:
        return "REJECT"
    if 2_000 <= offset % 4_000 <= 2_199 and delivery_count == 1:
        return "RELEASE"
    return "ACCEPT"


def _print_first(message: Any) -> None:
    where = f"{message.topic()}-{message.partition()} at offset {message.offset()}"
    print(f"first record: {message.value().decode()!r} of {where}, delivery {message.delivery_count()}", flush=True)


def main() -> int:
    """Consume until SIGTERM, and return the exit code."""
    from confluent_kafka import AcknowledgeType, ShareConsumer

    arguments = parse_arguments(__doc__, "demo-kafka-client")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    warnings.simplefilter("ignore")
    settings: dict[str, Any] = {
        "bootstrap.servers": arguments.bootstrap_servers,
        "group.id": arguments.group_id,
        "client.id": arguments.client_id,
        "share.acknowledgement.mode": "explicit",
        "log_level": 3,
    }
    consumer = ShareConsumer(settings)
    done: Counter[str] = Counter()
    try:
        consumer.subscribe([arguments.topic])
        while not stop.is_set():
            for message in consumer.poll(timeout=0.5):
                if message.error() is None:
                    decision = acknowledge_type(message.offset(), message.delivery_count())
                    consumer.acknowledge(message, getattr(AcknowledgeType, decision))
                    done[decision] += 1
                    if done.total() == 1:
                        _print_first(message)
                    time.sleep(WORK_S)  # instead of a handler
    finally:
        consumer.close()
    print(json.dumps(done), flush=True)
    return 0


def parse_arguments(description: str | None, client_id: str) -> argparse.Namespace:
    """Parse the command line of a member of the demo. `client_id` is the default of --client-id."""
    parser = CommandParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--group-id", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--client-id", default=client_id)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
