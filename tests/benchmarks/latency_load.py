"""Members of one share group under a steady load: how long each record took, and whether every record came.

A process of its own; prints "measuring" when that begins, and JSON at the end. It ends when every record that was
produced has been accepted by a member, or when none came for `_STALLED_S`. What did not come by then is `missing`, by
partition and offset.

The modes: `accept` measures from produce to poll. In `release`, the member that gets a record first releases it, and
the time from the release to the next delivery is measured. In `expire`, it stands still instead, and what is measured
is the time by which the next delivery is later than the end of its lock (its poll plus the lock's duration).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.harness.submitted_job import ROOT

ACCEPT, RELEASE, EXPIRE = "accept", "release", "expire"
_MEASURING = "measuring"
_PACE_S, _STALLED_S, _JOIN_S = 0.002, 60.0, 120.0


class Load(NamedTuple):
    """`rate` records a second for `seconds`, after all members have had records and another `warm_up_s`."""

    members: int
    partitions: int
    rate: int
    seconds: float
    warm_up_s: float
    mode: str = ACCEPT
    lock_ms: int = 30_000


class _Deliveries:
    """What the members got, by the number of the record. Used by all threads."""

    def __init__(self, load: Load) -> None:
        self.load, self._changed = load, threading.Condition()
        self.first_ms: dict[int, float] = {}
        self.accepted: Counter[int] = Counter()
        self.latencies_ms: dict[int, float] = {}
        self.members: set[int] = set()
        self.last_s = time.monotonic()
        self.is_over = threading.Event()

    def accept(self, record: int, latency_ms: float) -> None:
        with self._changed:
            self.accepted[record] += 1
            self.latencies_ms.setdefault(record, latency_ms)
            self.last_s = time.monotonic()
            self._changed.notify_all()

    def await_accepted(self, record: int) -> None:
        """Wait until another member has accepted a record."""
        with self._changed:
            self._changed.wait_for(lambda: record in self.accepted or self.is_over.is_set(), timeout=_STALLED_S)

    def await_all(self, records: int) -> None:
        """Wait until so many records are accepted, or none comes any longer."""
        with self._changed:
            self.last_s = max(self.last_s, time.monotonic())
            while len(self.accepted) < records and time.monotonic() < self.last_s + _STALLED_S:
                self._changed.wait(timeout=1.0)


def measure(bootstrap_servers: str, gateways: Sequence[str], group: str, topic: str, load: Load) -> dict[str, Any]:
    """Run the load, with the members at `gateways` in turns, and return what came of it."""
    warnings.simplefilter("ignore")
    deliveries = _Deliveries(load)
    threads = [
        threading.Thread(target=_member, args=(deliveries, number, gateways[number % len(gateways)], group, topic))
        for number in range(load.members)
    ]
    for thread in threads:
        thread.start()
    try:
        produced, places, warm_up = _produce(bootstrap_servers, topic, load, deliveries)
        deliveries.await_all(produced)
    finally:
        deliveries.is_over.set()
        for thread in threads:
            thread.join()
    missing = [places[record] for record in range(produced) if record not in deliveries.accepted]
    return {
        "produced": produced,
        "accepted": len(deliveries.accepted),
        "accepted_again": sum(count - 1 for count in deliveries.accepted.values()),
        "missing": missing,
        "latencies_ms": [ms for record, ms in sorted(deliveries.latencies_ms.items()) if record >= warm_up],
    }


def _produce(
    bootstrap_servers: str, topic: str, load: Load, deliveries: _Deliveries
) -> tuple[int, dict[int, tuple[int, int]], int]:
    """Return the number of records, {record: (partition, offset)}, and the number of the first that is measured.

    Each record is the number and the time of its production. `expire` produces the next record when the previous one
    has been accepted.
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
    places: dict[int, tuple[int, int]] = {}
    sent, first, begin, joined_s = 0, -1, time.monotonic(), -1.0
    while True:
        now_s = time.monotonic()
        if joined_s < 0 and len(deliveries.members) == load.members:
            joined_s = now_s
        if joined_s < 0 and now_s > begin + _JOIN_S:
            raise TimeoutError(f"{len(deliveries.members)} of {load.members} members got records in {_JOIN_S:.0f} s")
        if first < 0 <= joined_s and now_s >= joined_s + load.warm_up_s:
            first = sent
            print(_MEASURING, flush=True)
        if first >= 0 and now_s >= joined_s + load.warm_up_s + load.seconds:
            break
        due = int((now_s - begin) * load.rate) if load.mode != EXPIRE else len(deliveries.accepted) + 1
        for record in range(sent, due):
            producer.produce(
                topic,
                b"%d %.6f" % (record, time.time()),
                partition=record % load.partitions,
                on_delivery=lambda error, message, record=record: places.__setitem__(
                    record, (message.partition(), message.offset()) if error is None else (-1, -1)
                ),
            )
        sent = max(sent, due)
        producer.poll(_PACE_S)
    producer.flush(60)
    return sent, places, first


def _member(deliveries: _Deliveries, number: int, bootstrap_servers: str, group: str, topic: str) -> None:
    from confluent_kafka import AcknowledgeType, ShareConsumer

    load = deliveries.load
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "group.id": group}
    if load.mode != ACCEPT:
        settings["share.acknowledgement.mode"] = "explicit"
    consumer = ShareConsumer(settings)
    consumer.subscribe([topic])
    try:
        while not deliveries.is_over.is_set():
            messages = [message for message in consumer.poll(timeout=0.5) if message.error() is None]
            now_ms = time.time() * 1000
            if messages:
                deliveries.members.add(number)
            for message in messages:
                words = message.value().split()
                record, since_ms = int(words[0]), float(words[1]) * 1000
                if load.mode == ACCEPT:
                    deliveries.accept(record, now_ms - since_ms)
                elif record not in deliveries.first_ms:
                    deliveries.first_ms[record] = now_ms + (load.lock_ms if load.mode == EXPIRE else 0)
                    if load.mode == EXPIRE:
                        deliveries.await_accepted(record)
                    consumer.acknowledge(message, AcknowledgeType.RELEASE)
                else:
                    deliveries.accept(record, now_ms - deliveries.first_ms[record])
                    consumer.acknowledge(message, AcknowledgeType.ACCEPT)
    finally:
        consumer.close()


def measure_apart(
    bootstrap_servers: str,
    gateways: Sequence[str],
    group: str,
    topic: str,
    load: Load,
    on_measuring: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """`measure` in a process of its own; `on_measuring` is called when its warm-up is over.

    Raises RuntimeError when it fails.
    """
    command = [
        sys.executable, "-m", "tests.benchmarks.latency_load", bootstrap_servers, ";".join(gateways), group, topic,
        json.dumps(load),
    ]  # fmt: skip
    lines = [""]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.strip())
            if lines[-1] == _MEASURING:
                on_measuring()
        if process.wait() != 0:
            errors.seek(0)
            raise RuntimeError(f"the members of {group} ended with {process.returncode}:\n{errors.read()[-2000:]}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap_servers", "gateways", "group", "topic", "load"):
        parser.add_argument(name)
    options = parser.parse_args()
    load = Load(*json.loads(options.load))
    result = measure(options.bootstrap_servers, options.gateways.split(";"), options.group, options.topic, load)
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
