"""B12: the micro-batch of B1 on the tables of a month, against the same on new tables, in turns.

The tables have the rows of 1,000 other share-partitions, and a base as upkeep writes it; see `month`.
"""

from __future__ import annotations

from pathlib import Path

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.types import SharePartitionKey
from tests.benchmarks.b1_batch_time import parts
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.month import FULL, SMALL, write_month
from tests.benchmarks.side_by_side import JobUnderLoad, Turns

NAME = "B12"
_PARTITIONS = 4
_GROUPS = 250
_REACH = {50: 1.1, 99: 1.5}


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The figures, and the parts of both sides' batches."""
    turns = Turns(2, 10, 20) if quick else Turns(4, 60, 60)
    sizes = SMALL if quick else FULL
    rounds = _PARTITIONS * (2 * turns.warm_up + int(turns.number * turns.seconds * 20))

    def prepare(tables_path: str, topic: str, topic_id: str) -> None:
        groups = [f"group-{number:03}" for number in range(_GROUPS)]
        keys = [SharePartitionKey(group, topic, topic_id, p) for group in groups for p in range(_PARTITIONS)]
        write_month(tables_path, keys, sizes)

    with (
        JobUnderLoad(kafka, directory / "new", partitions=_PARTITIONS, rounds=rounds) as new,
        JobUnderLoad(kafka, directory / "month", partitions=_PARTITIONS, rounds=rounds, prepare=prepare) as month,
    ):
        for job in (new, month):
            job.member.ask(range(_PARTITIONS))
        measured = month.against(new, turns)
    note = (
        f"{sizes.state:,} rows in share_group_state, {sizes.log:,} in delivery_log; "
        f"{len(measured.job)} and {len(measured.bare)} micro-batches in turns"
    )
    found = []
    for percent, reach in _REACH.items():
        job, bare = (
            percentile([batch.trigger_ms for batch in side], percent) for side in (measured.job, measured.bare)
        )
        what = f"micro-batch p{percent} on a month's tables, against new ones"
        found.append(Figure(NAME, what, job, "ms", bare, job / bare, f"<= {reach}", job / bare <= reach, note))
    return found, {"month": parts(measured.job), "new": parts(measured.bare)}
