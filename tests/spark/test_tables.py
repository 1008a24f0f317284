"""Tables that delta-rs writes and maintains, read by delta-spark; and delta-spark as a second writer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable

from sharegroup.errors import FencedLeaderError
from sharegroup.storage.schemas import ALL_TABLES
from sharegroup.storage.writing.delta_table import open_or_create
from tests.tables.job_tables import UpkeepOf, batch, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_reads_tables_that_delta_rs_wrote_and_compacted(spark: SparkSession, tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    for batch_id in range(5):
        steps.commit(batch(batch_id, offset=batch_id))
    UpkeepOf(tmp_path).run(steps, prune_before={"delivery_log": "day < '2000-01-01'"})
    steps.commit(batch(5, offset=5))
    for writer in steps.writers:
        path = str(tmp_path / writer.spec.name)
        seen = spark.read.format("delta").load(path)
        expected = spark.createDataFrame(DeltaTable(path).to_pandas(), seen.schema)
        assert seen.count() == 6
        assert_df_equality(seen, expected, ignore_row_order=True, ignore_nullable=True)


def test_spark_shows_the_documentation_of_every_column(spark: SparkSession, tmp_path: Path) -> None:
    for spec in ALL_TABLES:
        open_or_create(str(tmp_path), spec)
        described = spark.sql(f"DESCRIBE TABLE delta.`{tmp_path / spec.name}`").collect()
        comments = {row["col_name"]: row["comment"] for row in described if row["col_name"] in spec.schema.names}
        assert comments == {field.name: field.metadata[b"comment"].decode() for field in spec.schema}


@pytest.mark.thorough
def test_a_foreign_optimize_fences_the_leader(spark: SparkSession, tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    for batch_id in range(2):
        steps.commit(batch(batch_id))
    spark.sql(f"OPTIMIZE delta.`{tmp_path / 'share_group_state'}`")
    with pytest.raises(FencedLeaderError, match="share_group_state"):
        steps.commit(batch(2))
