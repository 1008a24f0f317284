"""Reading a table in Delta by the files that a version adds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sharegroup.tables.rows_by_file import DeltaFiles, RowsByFile
from sharegroup.tables.schemas import SHARE_PARTITIONS

COLUMN = pa.field("part", pa.int32())


def write(path: Path, part: int, *partitions: int, epoch: int = 1, schema: pa.Schema = SHARE_PARTITIONS.schema) -> None:
    """Put these rows in place of those of a part."""
    key = {"group_id": "g", "topic": "t", "topic_id": "id", "part": part, "state_epoch": epoch, "time": 1_000_000}
    rows = pa.Table.from_pylist([{**key, "partition": number} for number in partitions], schema=schema.append(COLUMN))
    write_deltalake(path, rows, mode="overwrite", predicate=f"part = {part}", partition_by=["part"])


def numbers(rows: object) -> list[int]:
    assert isinstance(rows, dict)
    return sorted(row["partition"] for row in rows.values())


def test_only_files_that_were_added_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "share_partitions"
    write_deltalake(path, SHARE_PARTITIONS.schema.append(COLUMN).empty_table(), partition_by=["part"])
    write(path, 0, 1, 2, 3)
    write(path, 1, 11, 12)
    table, read = DeltaTable(path), list[str]()
    of_file = DeltaFiles.rows

    def counted(files: DeltaFiles, file: str) -> list[dict[str, object]]:
        read.append(file.partition("/")[0])
        return of_file(files, file)

    monkeypatch.setattr(DeltaFiles, "rows", counted)
    rows = RowsByFile(SHARE_PARTITIONS)
    assert numbers(rows.go_to(DeltaFiles(table, SHARE_PARTITIONS)).changed) == [1, 2, 3, 11, 12]
    assert read == ["part=0", "part=1"]
    write(path, 1, 11, 13, epoch=2)
    write(path, 1, 13, 14, epoch=2)
    table.update_incremental()
    change = rows.go_to(DeltaFiles(table, SHARE_PARTITIONS))
    assert (numbers(change.changed), numbers(change.removed)) == ([13, 14], [11, 12])
    assert read == ["part=0", "part=1", "part=1"]
    assert not any("part" in row for row in rows.rows.values())
    before = rows.go_to(DeltaFiles(DeltaTable(path, version=table.version() - 1), SHARE_PARTITIONS))
    assert (numbers(before.changed), numbers(before.removed)) == ([11], [14])
    write_deltalake(path, SHARE_PARTITIONS.schema.append(COLUMN).empty_table(), mode="overwrite", predicate="part = 1")
    table.update_incremental()
    assert numbers(rows.go_to(DeltaFiles(table, SHARE_PARTITIONS)).removed) == [11, 13]
    assert numbers(rows.rows) == [1, 2, 3]


def test_columns_that_an_earlier_version_did_not_have_are_null(tmp_path: Path) -> None:
    earlier = pa.schema([field for field in SHARE_PARTITIONS.schema if field.name != "auto_offset_reset"])
    write_deltalake(tmp_path, earlier.append(COLUMN).empty_table(), partition_by=["part"])
    write(tmp_path, 0, 1, schema=earlier)
    rows = RowsByFile(SHARE_PARTITIONS)
    rows.go_to(DeltaFiles(DeltaTable(tmp_path), SHARE_PARTITIONS))
    (row,) = rows.rows.values()
    assert (row["partition"], row["auto_offset_reset"]) == (1, None)
    assert set(row) == set(SHARE_PARTITIONS.schema.names) - set(SHARE_PARTITIONS.partition_by)
