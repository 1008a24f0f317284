"""B14: 200 members on 100 partitions with 1,000 records a second: rows in the request and response topics, and the
job's CPU, with the assignor `simple` (Kafka's, the default) against `all`, one after the other in one run.

With `all` everybody stands in wait at every partition: 20,000 demands, and what comes is shared out among them all.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from sharegroup.testkit.embedded_kafka import EmbeddedKafka
from tests.benchmarks.engine import Engine, row_topics, write_config
from tests.benchmarks.figures import Figure
from tests.benchmarks.fleet_load import FleetLoad
from tests.benchmarks.steady_producer import produced

NAME = "B14"
_REACH = 1 / 20
_GROUP_ID = "fleet"


class _Sizes(NamedTuple):
    members: int
    partitions: int
    records_a_second: int
    seconds: float


class _Seen(NamedTuple):
    """In the measured time: rows a second in both topics, records a second, CPU in % of a core."""

    rows: float
    records: float
    cpu_percent: float


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Rows a second of either assignor, and the CPU."""
    sizes = _Sizes(20, 10, 200, 10) if quick else _Sizes(200, 100, 1_000, 60)
    seen = {assignor: _measure(kafka, directory / assignor, assignor, sizes) for assignor in ("all", "simple")}
    simple, everybody = seen["simple"], seen["all"]
    who = f"{sizes.members} members x {sizes.partitions} partitions x {sizes.records_a_second:,} records/s"
    note = f"{simple.records:.0f} and {everybody.records:.0f} records a second came to members"
    ratio = simple.rows / everybody.rows
    return [
        Figure(NAME, f"{who}: rows of requests and responses a second, simple against all", simple.rows, "/s",
               everybody.rows, ratio, f"<= {_REACH}", ratio <= _REACH, note),
        Figure(NAME, "CPU of the job, of one core", simple.cpu_percent, "%", everybody.cpu_percent,
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
        produced(kafka.bootstrap_servers, topic, sizes.partitions, sizes.records_a_second),
    ):
        fleet.await_records(sizes.records_a_second)
        before, cpu, begin = fleet.counts(), engine.processes.cpu_seconds(), time.monotonic()
        time.sleep(sizes.seconds)  # the measured interval itself
        after, cpu = fleet.counts(), engine.processes.cpu_seconds() - cpu
        seconds = time.monotonic() - begin
    return _Seen((after.rows - before.rows) / seconds, (after.records - before.records) / seconds, 100 * cpu / seconds)
