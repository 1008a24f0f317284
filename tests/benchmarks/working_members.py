"""Members that work: several confluent-kafka ShareConsumers in threads, each of which takes its time for a record.

Says `ready` when each has got a record, or has had half a minute to get one. Told a number of seconds on standard
input, it prints as JSON how many records each has finished within them, and ends.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import warnings
from typing import Any

#: Who has got nothing within so long starves, which is a part of the figure.
_BEGIN_S = 30


class Member(threading.Thread):
    """Polls, and works `work_s` on each record; what is polled is accepted by the next poll."""

    def __init__(self, settings: dict[str, Any], topic: str, work_s: float, ended: threading.Event) -> None:
        super().__init__()
        self._settings, self._topic, self._work_s, self._ended = settings, topic, work_s, ended
        self.has_begun = threading.Event()
        self.finished = 0

    def run(self) -> None:
        """Until `ended`."""
        from confluent_kafka import ShareConsumer

        consumer = ShareConsumer(self._settings)
        consumer.subscribe([self._topic])
        try:
            while not self._ended.is_set():
                messages = consumer.poll(timeout=1.0)
                due = time.monotonic()
                for message in messages:
                    if message.error() is not None or self._ended.is_set():
                        continue
                    self.has_begun.set()
                    due = max(due, time.monotonic() - self._work_s) + self._work_s
                    time.sleep(max(0.0, due - time.monotonic()))  # the work
                    self.finished += 1
        finally:
            consumer.close()


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--members", type=int, required=True)
    parser.add_argument("--work-ms", type=float, required=True)
    parser.add_argument("--max-poll-records", type=int, required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    settings = {
        "bootstrap.servers": options.bootstrap_servers,
        "group.id": options.group,
        "max.poll.records": options.max_poll_records,
    }
    ended = threading.Event()
    members = [Member(settings, options.topic, options.work_ms / 1000, ended) for _ in range(options.members)]
    for member in members:
        member.start()
    until = time.monotonic() + _BEGIN_S
    for member in members:
        member.has_begun.wait(max(0.0, until - time.monotonic()))
    print("ready", flush=True)
    seconds = float(sys.stdin.readline())
    before, begin = [member.finished for member in members], time.monotonic()
    time.sleep(seconds)  # the measured interval itself
    after, took = [member.finished for member in members], time.monotonic() - begin
    print(json.dumps({"seconds": took, "finished": [b - a for a, b in zip(before, after, strict=True)]}), flush=True)
    ended.set()
    for member in members:
        member.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
