"""The package in every Python process: shipped as a zip where nothing is installed."""

from __future__ import annotations

import json
import py_compile
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from sharegroup.job.lead.stale_checkpoint import Checkpoint
from sharegroup.spark import shipping
from sharegroup.spark.job.checkpoint import begin_checkpoint, read_checkpoint
from sharegroup.spark.queries import log_offsets_source
from tests.spark.shipped_module import ship

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

#: A reader that is only in the zip. It reports where it was imported from and its option.
READER = """
from pyspark.sql.datasource import SimpleDataSourceStreamReader


class Reader(SimpleDataSourceStreamReader):
    def __init__(self, options):
        self._word = options["word"]

    def initialOffset(self):
        return {"read": 0}

    def read(self, start):
        if start["read"]:
            return iter(()), start
        return iter([(self._word, __file__)]), {"read": 1}

    def readBetweenOffsets(self, start, end):
        return iter([(self._word, __file__)] if start != end else ())

    def commit(self, end):
        pass
"""


def test_a_source_runs_in_a_worker_with_only_the_zip(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unique_name: Callable[[str], str]
) -> None:
    archive = ship(spark, tmp_path, monkeypatch, "shipped_for_a_test", READER)
    name = unique_name("shipped").replace("-", "_")
    shipping.register_source(spark, name, "shipped_for_a_test:Reader", "word STRING, path STRING")

    seen: list[tuple[str, str]] = []

    def collect(frame: DataFrame, batch_id: int) -> None:
        seen.extend((row["word"], row["path"]) for row in frame.collect())

    checkpoint = str(tmp_path / "checkpoint")
    assert read_checkpoint(spark, checkpoint) is None
    query_id = begin_checkpoint(spark, checkpoint)
    assert read_checkpoint(spark, checkpoint) == Checkpoint(checkpoint, query_id, -1)
    query = (
        spark.readStream.format(name)
        .option("options", json.dumps({"word": "hello"}))
        .load()
        .writeStream.option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(collect)
        .start()
    )
    query.awaitTermination()
    assert seen == [("hello", str(archive / "shipped_for_a_test.py"))]
    assert str(query.id) == query_id == begin_checkpoint(spark, checkpoint)
    pinned = {"shuffle.partitions": int(spark.conf.get("spark.sql.shuffle.partitions") or 0)}
    assert read_checkpoint(spark, checkpoint) == Checkpoint(checkpoint, query_id, 0, pinned=pinned)


def test_the_package_runs_from_its_zip(spark: SparkSession) -> None:
    """The modules that the workers import, including resources."""
    archive = shipping.ship_package(spark)
    code = f"""
import sys
sys.path.insert(0, {archive!r})
from sharegroup.spark.queries import log_offsets_source, operators, share_groups_source
ours = [module for name, module in sys.modules.items() if name.startswith("sharegroup.")]
assert ours and all(module.__file__.startswith({archive!r}) for module in ours)
"""
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


def test_the_zip_has_the_cached_bytecode(tmp_path: Path) -> None:
    """Without it, each worker would compile the package again."""
    py_compile.compile(log_offsets_source.__file__, doraise=True)
    archive = str(tmp_path / "package.zip")
    shipping._zip_package(archive)
    code = f"""
import sys
sys.path.insert(0, {archive!r})
from sharegroup.spark.queries import log_offsets_source
assert log_offsets_source.__file__ == {archive + "/sharegroup/spark/queries/log_offsets_source.pyc"!r}
"""
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


def test_workers_import_pyspark_from_its_directory(spark: SparkSession) -> None:
    """From Spark's zip, each worker would compile PySpark again (`spark_home`)."""

    def pyspark_path(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas
        import pyspark

        for _ in batches:
            yield pandas.DataFrame({"path": [pyspark.__file__]})

    frame = spark.range(1).repartition(1).mapInPandas(pyspark_path, "path STRING")
    assert [row["path"] for row in frame.collect()] == [pyspark.__file__]
