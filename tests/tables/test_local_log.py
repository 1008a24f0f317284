"""A log on a local disk is cut at a checkpoint, so that each remaining version can be read."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from sharegroup.storage.writing.local_log import trim_local_log


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """Return a table with ten versions; version v has the rows 0..v. Checkpoints are at versions 3 and 6."""
    path = str(tmp_path / "table")
    for version in range(10):
        write_deltalake(path, pa.table({"version": [version]}), mode="append")
        if version in (3, 6):
            DeltaTable(path).create_checkpoint()
    return DeltaTable(path)


def log_files(table: DeltaTable) -> list[str]:
    return sorted(path.name for path in (Path(table.table_uri.removeprefix("file://")) / "_delta_log").iterdir())


def rows_at(table: DeltaTable, version: int) -> int:
    return DeltaTable(table.table_uri, version=version).to_pyarrow_table().num_rows


def test_versions_from_the_checkpoint_before_the_wanted_ones_stay(table: DeltaTable) -> None:
    assert trim_local_log(table.table_uri, newest_version=9, keep=4) == 3  # cut at 3, as version 5 is needed
    assert log_files(table)[:2] == [f"{3:020}.checkpoint.parquet", f"{3:020}.json"]
    assert [rows_at(table, version) for version in range(3, 10)] == [4, 5, 6, 7, 8, 9, 10]
    with pytest.raises(DeltaError):
        rows_at(table, 2)


def test_a_checkpoint_at_the_oldest_wanted_version_is_enough(table: DeltaTable) -> None:
    assert trim_local_log(table.table_uri, newest_version=9, keep=3) == 7  # 0..5, and checkpoint 3
    assert [rows_at(table, version) for version in range(6, 10)] == [7, 8, 9, 10]


def test_without_a_checkpoint_that_old_nothing_goes(table: DeltaTable) -> None:
    before = log_files(table)
    assert trim_local_log(table.table_uri, newest_version=9, keep=7) == 0
    assert log_files(table) == before


def test_commits_continue_from_the_trimmed_log(table: DeltaTable) -> None:
    trim_local_log(table.table_uri, newest_version=9, keep=1)
    write_deltalake(table, pa.table({"version": [10]}), mode="append")
    assert rows_at(table, 10) == 11


def test_tables_on_an_object_store_are_left_alone() -> None:
    assert trim_local_log("s3://bucket/table", newest_version=9, keep=1) == 0
