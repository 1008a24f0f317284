"""B14: 200 members on 100 partitions: rows in the request and response topics, and the job's CPU, with the assignor
`simple` (Kafka's, the default) against `all`, one after the other in one run.

With `all` everybody stands in wait at every partition: 20,000 demands, and what comes is shared out among them all. So
1,000 records that come to each partition at once go out in 20,000 responses. At a steady 1,000 records a second in all,
most responses of either assignor carry few records.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.benchmarks import topics
from tests.benchmarks.engine import Engine, row_topics, write_config
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.fleet_load import FleetLoad
from tests.benchmarks.steady_producer import produced

NAME = "B14"
_REACH = 1 / 20
_GROUP_ID = "fleet"
_RECORD_SIZE = 20


class _Sizes(NamedTuple):
    members: int
    partitions: int
    #: Records that come to each partition at once, and how often.
    burst: int
    bursts: int
    #: Then, in all.
    records_a_second: int
    seconds: float


class _Seen(NamedTuple):
    """Rows in both topics and the job's CPU time (seconds) for a burst; then rows and records a second, and CPU in %
    of a core."""

    burst_rows: float
    burst_cpu_s: float
    rows: float
    records: float
    cpu_percent: float


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Rows with either assignor, and the CPU."""
    sizes = _Sizes(20, 10, 1_000, 2, 200, 10) if quick else _Sizes(200, 100, 1_000, 5, 1_000, 60)
    seen = {assignor: _measure(kafka, directory / assignor, assignor, sizes) for assignor in ("all", "simple")}
    simple, everybody = seen["simple"], seen["all"]
    who = f"{sizes.members} members x {sizes.partitions} partitions"
    steadily = f"{who}, {sizes.records_a_second:,} records/s in all"
    at_once = f"{who}, {sizes.burst:,} records come to each partition"
    note = f"{simple.records:.0f} and {everybody.records:.0f} records a second came to members"
    ratio = simple.burst_rows / everybody.burst_rows
    return [
        Figure(NAME, f"{at_once}: rows of requests and responses, simple against all", simple.burst_rows, "",
               everybody.burst_rows, ratio, f"<= {_REACH}", ratio <= _REACH),
        Figure(NAME, f"{at_once}: CPU time of the job", simple.burst_cpu_s, "s", everybody.burst_cpu_s,
               simple.burst_cpu_s / everybody.burst_cpu_s),
        Figure(NAME, f"{steadily}: rows a second", simple.rows, "/s", everybody.rows, simple.rows / everybody.rows,
               note=note),
        Figure(NAME, f"{steadily}: CPU of the job, of one core", simple.cpu_percent, "%", everybody.cpu_percent,
               simple.cpu_percent / everybody.cpu_percent),
    ], {assignor: found._asdict() for assignor, found in seen.items()}  # fmt: skip


def _measure(kafka: EmbeddedKafka, directory: Path, assignor: str, sizes: _Sizes) -> _Seen:
    topic = f"fleet-{assignor}"
    kafka.create_topic(topic, partitions=sizes.partitions)
    names = row_topics(topic)
    group = {"group.share.assignors": assignor}
    config = write_config(directory, kafka.bootstrap_servers, names, group, groups=[_GROUP_ID])
    with (
        Engine(config) as engine,
        FleetLoad(kafka.bootstrap_servers, _GROUP_ID, topic, sizes.partitions, sizes.members, names) as fleet,
    ):
        # The first one warms up: members join meanwhile.
        bursts = [_burst(kafka, topic, engine, fleet, sizes) for _ in range(1 + sizes.bursts)][1:]
        with produced(kafka.bootstrap_servers, topic, sizes.partitions, sizes.records_a_second):
            fleet.await_records(sizes.records_a_second)
            before, cpu, begin = fleet.counts(), engine.processes.cpu_seconds(), time.monotonic()
            time.sleep(sizes.seconds)  # the measured interval itself
            after, cpu = fleet.counts(), engine.processes.cpu_seconds() - cpu
            seconds = time.monotonic() - begin
    rows, records = (after.rows - before.rows) / seconds, (after.records - before.records) / seconds
    burst_rows, burst_cpu_s = (median(values) for values in zip(*bursts, strict=True))
    return _Seen(burst_rows, burst_cpu_s, rows, records, 100 * cpu / seconds)


def _burst(kafka: EmbeddedKafka, topic: str, engine: Engine, fleet: FleetLoad, sizes: _Sizes) -> tuple[int, float]:
    """Rows and CPU time until all that came at once is accepted."""
    records = sizes.partitions * sizes.burst
    before, cpu = fleet.counts(), engine.processes.cpu_seconds()
    topics.fill(kafka.bootstrap_servers, topic, sizes.partitions, records, _RECORD_SIZE)
    fleet.await_records(before.records + records - fleet.counts().records)
    fleet.await_answers()
    return fleet.counts().rows - before.rows, engine.processes.cpu_seconds() - cpu
