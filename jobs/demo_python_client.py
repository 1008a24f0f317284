"""A member of the demo that uses this project's consumer for Python, with a handler, at the gateway.

    python jobs/demo_python_client.py --bootstrap-servers localhost:9193 --group-id demo --topic orders

It acknowledges by the rules of demo_kafka_client.py. It runs until SIGTERM, prints the counts of its acknowledgements
as JSON, and exits with code 0.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout, when the package is not installed

from jobs.demo_kafka_client import WORK_S, acknowledge_type, parse_arguments
from sharegroup.client import Record, Reject, Release, ShareConsumer

#: The exception that the handler raises for each acknowledge type.
ERRORS = {"RELEASE": Release, "REJECT": Reject}


def main() -> int:
    """Handle records until SIGTERM, and return the exit code."""
    arguments = parse_arguments(__doc__, "demo-python-client")
    consumer = ShareConsumer(
        arguments.bootstrap_servers,
        group_id=arguments.group_id,
        topics=[arguments.topic],
        client_id=arguments.client_id,
    )
    done: Counter[str] = Counter()

    @consumer.handler()
    def handle(record: Record[bytes]) -> None:
        time.sleep(WORK_S)  # instead of work
        decision = acknowledge_type(record.offset, record.delivery_count)
        done[decision] += 1
        if decision in ERRORS:
            raise ERRORS[decision]("decided by the rules of the demo")

    consumer.run()
    print(json.dumps(done), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
