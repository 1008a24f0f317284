"""B13: 200 active share-partitions of 100,000 that are known, against 200 of 200, in turns."""

from __future__ import annotations

from pathlib import Path

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.types import SharePartitionKey
from tests.benchmarks.b1_batch_time import parts
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.month import MANY, SMALL, write_month
from tests.benchmarks.side_by_side import JobUnderLoad, Turns

NAME = "B13"
_REACH = 1.3
_REACH_MB = 2_000
_DRIVER_MEMORY = "1g"


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The figures, and the parts of both sides' batches."""
    active, groups = (20, 50) if quick else (200, 500)
    turns = Turns(2, 10, 5) if quick else Turns(3, 40, 20)
    rounds = active * (2 * turns.warm_up + int(turns.number * turns.seconds * 4))

    def prepare(tables_path: str, topic: str, topic_id: str) -> None:
        names = [f"group-{number:03}" for number in range(groups)]
        keys = [SharePartitionKey(group, topic, topic_id, p) for group in names for p in range(active)]
        write_month(tables_path, keys, SMALL if quick else MANY)

    with (
        JobUnderLoad(kafka, directory / "few", partitions=active, rounds=rounds, shards=2) as few,
        JobUnderLoad(
            kafka, directory / "many", partitions=active, rounds=rounds, shards=2, prepare=prepare,
            driver_memory=_DRIVER_MEMORY,
        ) as many,
    ):  # fmt: skip
        for job in (few, many):
            job.member.ask(range(active))
        measured = many.against(few, turns)
        memory = many.engine.processes.memory()
    job, bare = (median([batch.trigger_ms for batch in side]) for side in (measured.job, measured.bare))
    known = (groups + 1) * active
    note = f"{len(measured.job)} and {len(measured.bare)} micro-batches in turns"
    driver_mb = memory.jvm_mb + memory.driver_python_mb
    return [
        Figure(NAME, f"micro-batch p50, {active} active of {known:,} known, against of {active} known", job, "ms", bare,
               job / bare, f"<= {_REACH}", job / bare <= _REACH, note),
        Figure(NAME, "CPU time of a micro-batch", *_cpu(measured.cpu_ms)),
        Figure(NAME, f"{known:,} known: memory of the driver, JVM and Python", driver_mb, "MB",
               reach=f"<= {_REACH_MB} MB", reached=driver_mb <= _REACH_MB),
        Figure(NAME, f"{known:,} known: memory of the Python workers", memory.python_workers_mb, "MB"),
    ], {"many": parts(measured.job), "few": parts(measured.bare), "memory": memory._asdict()}  # fmt: skip


def _cpu(cpu_ms: tuple[float, float]) -> tuple[float, str, float, float]:
    return cpu_ms[0], "ms", cpu_ms[1], cpu_ms[0] / cpu_ms[1]
