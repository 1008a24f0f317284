"""Spark plans one batch for each offset of a Python source, which the offsets of our sources rely on.

The rows of a batch are in its end offset, so a batch must never cover two of them, neither after a start that repeats
an uncommitted batch, nor when only the other source of the query advances.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sharegroup.spark import shipping
from tests.spark.shipped_module import ship

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Sources that advance at each read, or at each third one. A row contains the two offsets and its creator.
READERS = """
from pyspark.sql.datasource import SimpleDataSourceStreamReader


class Reader(SimpleDataSourceStreamReader):
    def __init__(self, options):
        self._name, self._each, self._reads = options["name"], options["each"], 0

    def initialOffset(self):
        return {"seq": 0}

    def read(self, start):
        self._reads += 1
        if self._reads % self._each:
            return iter(()), start
        end = {"seq": start["seq"] + 1}
        return iter([self._row("read", start, end)]), end

    def readBetweenOffsets(self, start, end):
        return iter([self._row("again", start, end)] if start != end else [])

    def commit(self, end):
        pass

    def _row(self, made, start, end):
        return (self._name, made, start["seq"], end["seq"])
"""
FAILED_BATCH, LAST_BATCH = 3, 8


class Ends(Exception):
    """The error that ends a query in its batch."""


@pytest.fixture
def sources(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unique_name: Callable[[str], str]
) -> DataFrame:
    archive = ship(spark, tmp_path, monkeypatch, "neighbours_for_a_test", READERS)
    spark.sparkContext.addPyFile(str(archive))  # executors read a repeated batch
    name = unique_name("neighbours").replace("-", "_")
    schema = "source STRING, made STRING, start LONG, end LONG"
    shipping.register_source(spark, name, "neighbours_for_a_test:Reader", schema)

    def source(options: dict[str, object]) -> DataFrame:
        return spark.readStream.format(name).option("options", json.dumps(options)).load()

    return source({"name": "often", "each": 1}).unionByName(source({"name": "seldom", "each": 3}))


Row = tuple[str, str, int, int]


def run(sources: DataFrame, checkpoint: Path, until: int) -> dict[int, list[Row]]:
    """Return the rows of each batch; the query ends in the middle of the batch `until`."""
    batches: dict[int, list[Row]] = {}

    def take(frame: DataFrame, batch_id: int) -> None:
        batches[batch_id] = sorted(tuple(row) for row in frame.collect())
        if batch_id == until:
            raise Ends

    query: StreamingQuery = sources.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint)).start()
    with pytest.raises(Exception, match="Ends"):
        query.awaitTermination()
    return batches


def test_a_batch_covers_one_offset_even_when_repeated(sources: DataFrame, tmp_path: Path) -> None:
    first = run(sources, tmp_path / "checkpoint", FAILED_BATCH)
    second = run(sources, tmp_path / "checkpoint", LAST_BATCH)
    assert list(second) == list(range(FAILED_BATCH, LAST_BATCH + 1))
    again = [(source, start, end) for source, made, start, end in second[FAILED_BATCH]]
    assert {made for _, made, _, _ in second[FAILED_BATCH]} == {"again"}
    assert again == [(source, start, end) for source, _, start, end in first[FAILED_BATCH]]
    batches = {**first, **second}
    for name in ("often", "seldom"):
        of_source = [[(start, end) for source, _, start, end in batches[n] if source == name] for n in sorted(batches)]
        assert all(len(batch) <= 1 for batch in of_source)
        moves = [move for batch in of_source for move in batch]
        assert moves == [(seq, seq + 1) for seq in range(len(moves))]
        assert len(moves) > 1
