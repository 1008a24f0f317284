"""Which `operator.shards` is best for 1,000 active share-partitions on this machine: the job alone, at each of some."""

from __future__ import annotations

from pathlib import Path

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.benchmarks.b1_batch_time import parts
from tests.benchmarks.b3_share_partitions import job_at_interval
from tests.benchmarks.figures import Figure, median

NAME = "shards"
_SHARDS = (1, 2, 4, 8, 16)


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The median micro-batch at each shard count, and its CPU time."""
    partitions, warm_up, seconds = (100, 5, 10) if quick else (1_000, 20, 60)
    figures: list[Figure] = []
    details: dict[str, object] = {}
    for shards in _SHARDS:
        with job_at_interval(kafka, directory / f"shards-{shards}", partitions, shards, quick) as job:
            job.member.ask(range(partitions))
            job.await_batches(warm_up)
            cpu = job.engine.processes.cpu_seconds()
            window = job.run(seconds)
            cpu = job.engine.processes.cpu_seconds() - cpu
            batches = [batch for batch in job.engine.batches() if batch.start_ms >= window.begin_ms]
        each = median([batch.trigger_ms for batch in batches])
        note = f"micro-batches of {median([batch.rows for batch in batches]):.0f} rows"
        details[str(shards)] = {**parts(batches), "cpu_ms": 1000 * cpu / max(1, len(batches))}
        what = f"{partitions:,} active, operator.shards {shards}: micro-batch p50"
        figures.append(Figure(NAME, what, each, "ms", note=note))
    return figures, details
