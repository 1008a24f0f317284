"""`DeltaSink` with a real table: the records after its batches, over crashes and recreated topics."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from sharegroup.member.ranges import HeldRange
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch
from sharegroup.spark.share_consumer.delta_sink import DeltaSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY = "a-query"
Append = Callable[..., None]
Row = tuple[str, int, int]  # topic id, offset, batch id


class Consumer:
    """A `ShareConsumer` for its handler."""

    batch: AcquiredBatch
    holds_batch = True


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "sink")


@pytest.fixture
def append(spark: "SparkSession", path: str) -> Append:
    def run(batch_id: int, incarnation: str, *ranges: HeldRange, is_rerun: bool = False) -> None:
        """Append a batch as one process; each process has its own sink."""
        consumer: Any = Consumer()
        consumer.batch = AcquiredBatch(QUERY, batch_id, ranges, is_rerun, incarnation)
        DeltaSink(consumer, path)(records(spark, ranges), batch_id)

    return run


def held(first: int, last: int, count: int = 1, topic_id: str = "id") -> HeldRange:
    return HeldRange("t", topic_id, 0, first, last, count, 0)


def records(spark: "SparkSession", ranges: Sequence[HeldRange]) -> "DataFrame":
    rows = [(r.topic, r.partition, offset) for r in ranges for offset in range(r.first_offset, r.last_offset + 1)]
    return spark.createDataFrame(rows, "topic STRING, partition INT, offset LONG")


def rows_of(path: str) -> list[Row]:
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted((row["topic_id"] or "", row["offset"], row["batch_id"]) for row in rows)


def expected(offsets: range, batch_id: int, topic_id: str = "id") -> list[Row]:
    return [(topic_id, offset, batch_id) for offset in offsets]


def test_each_rerun_appends_only_records_that_are_missing(append: Append, path: str) -> None:
    """The first re-run holds half of the batch, because another member has the rest; the second one holds all."""
    low, high = held(0, 49, count=3), held(50, 99, count=2)
    append(7, "process 1", high, is_rerun=True)
    assert rows_of(path) == expected(range(50, 100), 7)
    append(7, "process 2", low, high, is_rerun=True)
    assert rows_of(path) == expected(range(100), 7)


def test_a_batch_appended_before_a_kill_is_in_the_table_once(append: Append, path: str) -> None:
    append(7, "process 0", held(0, 9))
    append(7, "process 1", held(0, 9), is_rerun=True)
    append(8, "process 1", held(5, 9, count=2), held(10, 14))
    assert rows_of(path) == expected(range(10), 7) + expected(range(10, 15), 8)


def test_records_of_a_recreated_topic_are_distinct(append: Append, path: str) -> None:
    append(1, "process 0", held(0, 9))
    append(2, "process 0", held(0, 4, topic_id="id again"))
    append(3, "process 0", held(0, 9, count=2, topic_id="id again"))
    again = expected(range(5), 2, "id again") + expected(range(5, 10), 3, "id again")
    assert rows_of(path) == expected(range(10), 1) + again
