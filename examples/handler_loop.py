"""A share consumer in Python with `sharegroup.client`: a handler that four threads call, at a gateway or at Kafka 4.2.

    python examples/handler_loop.py 127.0.0.1:9192 billing orders

It accepts numbers and rejects all other records. It ends at SIGTERM or Ctrl-C: running calls have ten seconds to
finish, and all other records are returned to the group. Start it several times to share the work.
"""

from __future__ import annotations

import sys

from sharegroup.client import Record, Reject, Retry, ShareConsumer


def main(bootstrap_servers: str, group_id: str, topic: str) -> None:
    """Handle records until the program is stopped."""
    consumer = ShareConsumer(bootstrap_servers, group_id=group_id, topics=[topic])

    @consumer.handler(concurrency=4, max_in_hand=(200, "16MB"), on_error=Retry.exponential(1, 60))
    def bill(record: Record[bytes | None]) -> None:
        if record.value is None or not record.value.isdigit():
            raise Reject("not a number")
        # One write with its line end, because four threads print.
        print(f"partition {record.partition}, offset {record.offset}: {int(record.value)}\n", end="", flush=True)

    consumer.run(drain_s=10)
    print("stopped")


if __name__ == "__main__":
    main(*sys.argv[1:4])
