"""Reading a table in Delta by the files that a version adds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sharegroup.storage.following.rows_by_file import DeltaFiles, RowsByFile
from sharegroup.storage.schemas import SHARE_PARTITIONS


def write(
    path: Path, chunk: int, *partitions: int, epoch: int = 1, schema: pa.Schema = SHARE_PARTITIONS.schema
) -> None:
    """Replace the rows of a chunk."""
    key = {"group_id": "g", "topic": "t", "topic_id": "id", "chunk": chunk, "state_epoch": epoch, "time": 1_000_000}
    rows = pa.Table.from_pylist([{**key, "partition": number} for number in partitions], schema=schema)
    write_deltalake(path, rows, mode="overwrite", predicate=f"chunk = {chunk}", partition_by=["chunk"])


def numbers(rows: object) -> list[int]:
    assert isinstance(rows, dict)
    return sorted(row["partition"] for row in rows.values())


def test_only_files_that_were_added_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "share_partitions"
    write_deltalake(path, SHARE_PARTITIONS.schema.empty_table(), partition_by=["chunk"])
    write(path, 0, 1, 2, 3)
    write(path, 1, 11, 12)
    table, read = DeltaTable(path), list[str]()
    read_file = DeltaFiles.table

    def counted(files: DeltaFiles, file: str) -> pa.Table:
        read.append(file.partition("/")[0])
        return read_file(files, file)

    monkeypatch.setattr(DeltaFiles, "table", counted)
    rows = RowsByFile(SHARE_PARTITIONS)
    assert numbers(rows.update(DeltaFiles(table, SHARE_PARTITIONS)).changed) == [1, 2, 3, 11, 12]
    assert read == ["chunk=0", "chunk=1"]
    write(path, 1, 11, 13, epoch=2)
    write(path, 1, 13, 14, epoch=2)
    table.update_incremental()
    change = rows.update(DeltaFiles(table, SHARE_PARTITIONS))
    assert (numbers(change.changed), numbers(change.removed)) == ([13, 14], [11, 12])
    assert read == ["chunk=0", "chunk=1", "chunk=1"]
    assert not any("chunk" in row for row in rows.rows.values())
    before = rows.update(DeltaFiles(DeltaTable(path, version=table.version() - 1), SHARE_PARTITIONS))
    assert (numbers(before.changed), numbers(before.removed)) == ([11], [14])
    write_deltalake(path, SHARE_PARTITIONS.schema.empty_table(), mode="overwrite", predicate="chunk = 1")
    table.update_incremental()
    assert numbers(rows.update(DeltaFiles(table, SHARE_PARTITIONS)).removed) == [11, 13]
    assert numbers(rows.rows) == [1, 2, 3]
