"""Idle: the CPU of a job that has nothing to do, as % of one core over its whole process tree."""

from __future__ import annotations

import time
from pathlib import Path

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.benchmarks.figures import Figure
from tests.benchmarks.side_by_side import JobUnderLoad

NAME = "idle"
_REACH = 3.0
_PARTITIONS = 4


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """With a member that waits for records at 4 share-partitions, and when it has gone."""
    settle_s, measure_s = (5, 10) if quick else (40, 90)
    with JobUnderLoad(kafka, directory / "idle", partitions=_PARTITIONS, rounds=400) as job:
        job.member.ask(range(_PARTITIONS))
        job.member.go_on()
        job.member.await_rounds(400)
        time.sleep(settle_s)  # whatever the work has left behind
        waiting = job.engine.processes.cpu_percent(measure_s)
        job.member.leave()
        time.sleep(settle_s)
        before = len(job.engine.batches())
        idle = job.engine.processes.cpu_percent(measure_s)
        batches = len(job.engine.batches()) - before
    note = f"{batches} micro-batches in {measure_s} s of idling"
    return [
        Figure(NAME, "no members, 4 share-partitions", idle, "% of a core", reach=f"<= {_REACH:.0f} %",
               reached=idle <= _REACH, note=note),
        Figure(NAME, "a member waits at 4 share-partitions (heartbeat each 5 s)", waiting, "% of a core"),
    ], {"idle": idle, "waiting": waiting, "batches": batches}  # fmt: skip
