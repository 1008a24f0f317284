"""B3: what a share-partition costs: micro-batch time and memory with 4, 100 and 1,000 of them active, or idle."""

from __future__ import annotations

from pathlib import Path

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.benchmarks.b1_batch_time import parts
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.process_tree import Memory
from tests.benchmarks.side_by_side import JobUnderLoad, Measured, Turns

NAME = "B3"
_REACH_MS = 0.15
_FEW = 4
#: What `--only shards` found best for 1,000 active share-partitions on two cores.
SHARDS = 2


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Figures for each number of active share-partitions, and for idle ones beside them."""
    many = 100 if quick else 1_000
    details: dict[str, object] = {}
    figures: list[Figure] = []
    with job_at_interval(kafka, directory / "b3-few", _FEW, SHARDS, quick) as job:
        few = job.compare(_FEW, _turns(quick))
        memory = job.engine.processes.memory()
    figures += _figures(_FEW, _FEW, few, memory, details)
    with job_at_interval(kafka, directory / "b3-many", many, SHARDS, quick) as job:
        for active in dict.fromkeys((_FEW, many // 10, many)):
            measured = job.compare(active, _turns(quick))
            memory = job.engine.processes.memory()
            figures += _figures(many, active, measured, memory, details)
            if active == _FEW:
                figures.append(_idle_figure(many - _FEW, few, measured))
    return figures, details


def _turns(quick: bool) -> Turns:
    return Turns(2, 8, 5) if quick else Turns(3, 20, 10)


def job_at_interval(kafka: EmbeddedKafka, directory: Path, partitions: int, shards: int, quick: bool) -> JobUnderLoad:
    """A trigger interval, so that each micro-batch has the requests of all active share-partitions."""
    rounds = partitions * (100 if quick else 400)
    return JobUnderLoad(
        kafka,
        directory,
        partitions=partitions,
        rounds=rounds,
        shards=shards,
        trigger_interval_ms=1_000 if quick else 2_000,
    )


def _figures(led: int, active: int, measured: Measured, memory: Memory, details: dict[str, object]) -> list[Figure]:
    job, bare = (median([batch.trigger_ms for batch in side]) for side in (measured.job, measured.bare))
    each = (job - bare) / active
    who = f"{active:,} active of {led:,}"
    details[who] = {"job": parts(measured.job), "bare": parts(measured.bare), "memory": memory._asdict()}
    rows = [median([batch.rows for batch in side]) for side in (measured.job, measured.bare)]
    is_many = active == led > _FEW  # a micro-batch costs something with one share-partition too
    note = f"{who}: {SHARDS} shards, micro-batches of {rows[0]:.0f} rows, bare {rows[1]:.0f}"
    return [
        Figure(NAME, f"{who}: micro-batch p50", job, "ms", bare, job / bare, note=note),
        Figure(NAME, f"{who}: beyond the bare one, for each active", each, "ms",
               reach=f"<= {_REACH_MS} ms" if is_many else "", reached=each <= _REACH_MS if is_many else None),
        Figure(NAME, f"{who}: memory of the JVM (driver and executor)", memory.jvm_mb, "MB"),
        Figure(NAME, f"{who}: memory of the driver's Python", memory.driver_python_mb, "MB"),
        Figure(NAME, f"{who}: memory of the Python workers", memory.python_workers_mb, "MB"),
    ]  # fmt: skip


def _idle_figure(idle: int, without: Measured, with_idle: Measured) -> Figure:
    before, after = (median([batch.trigger_ms for batch in side.job]) for side in (without, with_idle))
    bare_before, bare_after = (median([batch.trigger_ms for batch in side.bare]) for side in (without, with_idle))
    each = ((after - bare_after) - (before - bare_before)) / idle
    return Figure(NAME, f"what each of {idle:,} idle ones adds", each * 1000, "µs", reach="nothing")
