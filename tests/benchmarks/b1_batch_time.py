"""B1: the micro-batch of the share_partition query at 4 share-partitions, against a bare stateful micro-batch."""

from __future__ import annotations

from pathlib import Path

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.benchmarks.figures import Figure, median, percentile
from tests.benchmarks.side_by_side import JobUnderLoad, Measured, Turns
from tests.benchmarks.spark_progress import MicroBatch

NAME = "B1"
_PARTITIONS = 4
_REACH = {50: 1.25, 99: 1.6}
_UPKEEP_REACH = 1.2
_AT_EACH_END = 200


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The figures and the parts of both sides' batches."""
    turns = Turns(2, 10, 20) if quick else Turns(4, 40, 100)
    rounds = _PARTITIONS * (turns.warm_up + int(turns.number * turns.seconds * 20))
    with JobUnderLoad(kafka, directory / "b1", partitions=_PARTITIONS, rounds=rounds) as job:
        measured = job.compare(_PARTITIONS, turns)
        everything = job.engine.batches()
    return figures(measured, everything), {"job": parts(measured.job), "bare": parts(measured.bare)}


def figures(measured: Measured, everything: list[MicroBatch]) -> list[Figure]:
    """p50 and p99 with and without the question for offsets; and the job's first batches against its last."""
    rows = [median([batch.rows for batch in side]) for side in (measured.job, measured.bare)]
    note = (
        f"{len(measured.job)} and {len(measured.bare)} micro-batches in turns, of {rows[0]:.0f} and {rows[1]:.0f} rows"
    )
    found = []
    for percent, reach in _REACH.items():
        job = percentile([batch.trigger_ms for batch in measured.job], percent)
        bare = percentile([batch.trigger_ms for batch in measured.bare], percent)
        what, reached = f"micro-batch p{percent}", job / bare <= reach
        found.append(Figure(NAME, what, job, "ms", bare, job / bare, f"<= {reach}", reached, note))
    job = percentile([batch.without_offsets_ms for batch in measured.job], 50)
    bare = percentile([batch.without_offsets_ms for batch in measured.bare], 50)
    found.append(Figure(NAME, "micro-batch p50 without latestOffset", job, "ms", bare, job / bare))
    job_cpu, bare_cpu = measured.cpu_ms
    found.append(Figure(NAME, "CPU time of a micro-batch", job_cpu, "ms", bare_cpu, job_cpu / bare_cpu))
    end = min(_AT_EACH_END, len(measured.job) // 2)
    first, last = (median([b.trigger_ms for b in part]) for part in (measured.job[:end], measured.job[-end:]))
    what = f"micro-batch p50: last {end} of {len(everything)} against first {end} measured"
    return [*found, Figure("upkeep", what, last, "ms", first, last / first, f"<= {_UPKEEP_REACH}", last / first <= 1.2)]


def parts(batches: list[MicroBatch]) -> dict[str, float]:
    """The median of each part of a micro-batch, by Spark's names (ms), and of its rows."""
    names = sorted({name for batch in batches for name in batch.durations})
    found = {name: median([batch.durations.get(name, 0) for batch in batches]) for name in names}
    return {"batches": len(batches), "rows": median([batch.rows for batch in batches]), **found}
