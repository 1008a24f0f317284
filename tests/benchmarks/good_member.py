"""A good member: a confluent-kafka ShareConsumer that logs in, polls, and works a little on what it gets.

Says `ready` when it has records. For each number of seconds on standard input it prints as JSON how long its polls took
within them; it ends with standard input.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from typing import Any

_WORK_S = 0.02
_POLLED = 50


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--password", required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    from confluent_kafka import ShareConsumer

    settings: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap_servers,
        "group.id": options.group,
        "max.poll.records": _POLLED,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": options.user,
        "sasl.password": options.password,
    }
    consumer = ShareConsumer(settings)
    consumer.subscribe([options.topic])
    try:
        while not _poll(consumer)[1]:
            pass
        print("ready", flush=True)
        for line in sys.stdin:
            print(json.dumps(_measured(consumer, float(line))), flush=True)
    finally:
        consumer.close()
    return 0


def _measured(consumer: Any, seconds: float) -> dict[str, Any]:
    polls_ms, records, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        took_s, found = _poll(consumer)
        polls_ms.append(1000 * took_s)
        records += found
    return {"polls_ms": polls_ms, "records": records}


def _poll(consumer: Any) -> tuple[float, int]:
    begin = time.monotonic()
    messages = consumer.poll(timeout=10.0)
    took_s = time.monotonic() - begin
    time.sleep(_WORK_S)  # the work
    return took_s, sum(message.error() is None for message in messages)


if __name__ == "__main__":
    sys.exit(main())
