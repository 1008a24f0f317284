"""Discarding a checkpoint, and crashes while it is discarded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sharegroup.job.lead.stale_checkpoint import Checkpoint
from sharegroup.spark.job.checkpoint import begin_checkpoint, discard_checkpoint, read_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRY = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"8"}}
{"format":1,"seq":7,"shards":2}
{"__share_partition_requests":{"0":5}}"""
#: In the order of their deletion.
LEFT = ("metadata", "offsets", "commits", "state", "sources")


@pytest.fixture
def checkpoint(spark: SparkSession, tmp_path: Path) -> Path:
    """Return the folder as Spark leaves it after batch 3."""
    path = tmp_path / "checkpoint"
    begin_checkpoint(spark, str(path))
    for name in LEFT[1:]:
        (path / name).mkdir()
        (path / name / "3").write_text(ENTRY)
    return path


def test_a_checkpoint_contains_the_shards_and_the_shuffle_partitions(spark: SparkSession, checkpoint: Path) -> None:
    found, pinned = read_checkpoint(spark, str(checkpoint)), {"shuffle.partitions": 8, "operator.shards": 2}
    assert found == Checkpoint(str(checkpoint), begin_checkpoint(spark, str(checkpoint)), 3, {}, pinned)


@pytest.mark.parametrize("gone", range(1, len(LEFT) + 1))
def test_a_discard_that_dies_anywhere_leads_to_a_new_checkpoint(
    spark: SparkSession, checkpoint: Path, gone: int
) -> None:
    query_id = begin_checkpoint(spark, str(checkpoint))
    for name in LEFT[:gone]:
        (shutil.rmtree if (checkpoint / name).is_dir() else Path.unlink)(checkpoint / name)
    assert read_checkpoint(spark, str(checkpoint)) is None
    assert begin_checkpoint(spark, str(checkpoint)) != query_id
    assert {path.name for path in checkpoint.iterdir() if not path.name.startswith(".")} == {"metadata"}


@pytest.mark.parametrize("left", ["", '{"id": "0a'])
def test_a_checkpoint_with_a_torn_id_is_replaced(spark: SparkSession, checkpoint: Path, left: str) -> None:
    """A power loss can tear the file right after its creation."""
    (checkpoint / "metadata").write_text(left)
    (checkpoint / ".metadata.crc").unlink(missing_ok=True)
    assert read_checkpoint(spark, str(checkpoint)) is None
    begin_checkpoint(spark, str(checkpoint))
    assert read_checkpoint(spark, str(checkpoint)) is not None
    assert not (checkpoint / "offsets").exists()


def test_nothing_remains_of_a_discarded_checkpoint(spark: SparkSession, checkpoint: Path) -> None:
    discard_checkpoint(spark, str(checkpoint))
    assert not any(path for path in checkpoint.rglob("*") if not path.name.startswith("."))
    discard_checkpoint(spark, str(checkpoint))
