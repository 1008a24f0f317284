"""A client for Python reads a topic, as a process of its own; prints as JSON how long it took.

`consume` polls to a number of records: `seconds` and `cpu_s` are from the first record to the last, `early_mb` is the
resident memory after `EARLY_RECORDS`, `late_mb` after the last record. `handle` runs a handler loop: `share` is the
part of `workers x 1000 / work` records a second that it finished. With the library `none` there are only the workers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil

from sharegroup.client import ShareConsumer
from tests.harness.submitted_job import ROOT

EARLY_RECORDS = 100_000
#: The first calls do not count, because the consumer joins its group while they run.
_SETTLE_S = 5.0

#: Yields the values of each poll. The consumer is closed when the iterator is.
_Polls = Callable[[str, str, str], Iterator[list[bytes]]]


def consume(library: str, bootstrap_servers: str, group: str, topic: str, records: int) -> dict[str, float]:
    """Poll until so many records were read, with the default settings of the client."""
    process = psutil.Process()
    seen, early_mb = 0, 0.0
    begin_s = begin_cpu_s = 0.0
    polls = _POLLS[library](bootstrap_servers, group, topic)
    for values in polls:
        if values and not seen:
            begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
            first = len(values)
        seen += len(values)
        if not early_mb and seen >= EARLY_RECORDS:
            early_mb = _resident_mb(process)
        if seen >= records:
            break
    took = {"seconds": time.perf_counter() - begin_s, "cpu_s": time.process_time() - begin_cpu_s}
    late_mb = _resident_mb(process)
    polls.close()  # type: ignore[attr-defined] # they are generators
    return {**took, "records": seen - first, "early_mb": early_mb or late_mb, "late_mb": late_mb}


def handle(
    library: str, bootstrap_servers: str, group: str, topic: str, workers: int, work_ms: float, seconds: float
) -> dict[str, float]:
    """Work on records for `seconds`, after the loop has settled."""
    work_s = work_ms / 1000
    finished: list[None] = []  # appends of threads are atomic, additions are not
    has_begun, is_over = threading.Event(), threading.Event()

    def work(_: Any) -> None:
        time.sleep(work_s)  # the work
        finished.append(None)
        has_begun.set()

    def measure() -> None:
        has_begun.wait()
        time.sleep(_SETTLE_S)  # the load itself
        before, begin_s, begin_cpu_s = len(finished), time.perf_counter(), time.process_time()
        time.sleep(seconds)  # the measured interval itself
        found["share"] = (len(finished) - before) * work_s / workers / (time.perf_counter() - begin_s)
        found["cpu_s"] = time.process_time() - begin_cpu_s
        is_over.set()
        consumer.stop()

    found: dict[str, float] = {}
    consumer = ShareConsumer(bootstrap_servers, group_id=group, topics=[topic])
    consumer.handler(concurrency=workers)(work)
    measuring = threading.Thread(target=measure)
    measuring.start()
    if library == "none":
        with ThreadPoolExecutor(workers) as pool:
            for _ in range(workers):
                pool.submit(_repeat, work, is_over)
        consumer.close()
    else:
        consumer.run(drain_s=10)
    measuring.join()
    return found


def run_apart(*arguments: object, timeout_s: float = 600) -> dict[str, float]:
    """Run this module in a process of its own. Raises RuntimeError when that fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.python_clients", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=timeout_s,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{arguments} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _repeat(work: Callable[[Any], None], is_over: threading.Event) -> None:
    while not is_over.is_set():
        work(None)


def _resident_mb(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 1e6


def _sharegroup(bootstrap_servers: str, group: str, topic: str) -> Iterator[list[bytes]]:
    with ShareConsumer(bootstrap_servers, group_id=group, topics=[topic]) as consumer:
        while True:
            yield [record.value for record in consumer.poll(1.0)]


def _kafka_python(bootstrap_servers: str, group: str, topic: str) -> Iterator[list[bytes]]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap_servers, group_id=group, auto_offset_reset="earliest")
    try:
        while True:
            yield [record.value for records in consumer.poll(1_000).values() for record in records]
    finally:
        consumer.close()


def _confluent(bootstrap_servers: str, group: str, topic: str) -> Iterator[list[bytes]]:
    from confluent_kafka import ShareConsumer as ConfluentShareConsumer

    settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "group.id": group}
    consumer = ConfluentShareConsumer(settings)
    consumer.subscribe([topic])
    try:
        while True:
            yield [message.value() for message in consumer.poll(timeout=1.0) if message.error() is None]
    finally:
        consumer.close()


_POLLS: dict[str, _Polls] = {"sharegroup": _sharegroup, "kafka-python": _kafka_python, "confluent": _confluent}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=("consume", "handle"))
    parser.add_argument("library", choices=(*_POLLS, "none"))
    parser.add_argument("bootstrap_servers")
    parser.add_argument("group")
    parser.add_argument("topic")
    parser.add_argument("numbers", nargs="+", type=float, help="records; or workers, ms of work, seconds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    where = (options.library, options.bootstrap_servers, options.group, options.topic)
    if options.verb == "consume":
        found = consume(*where, int(options.numbers[0]))
    else:
        workers, work_ms, seconds = options.numbers
        found = handle(*where, int(workers), work_ms, seconds)
    print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
