"""Tables that are read repeatedly: reads return the tables' content, and read no file twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from sharegroup.job.commit.commit_steps import Batch
from sharegroup.job.commit.current_rows import CHUNK_ROWS
from sharegroup.storage import CachedTables, TableMissingError, read_group, read_groups, read_share_group_offsets
from sharegroup.storage.following.rows_by_file import DeltaFiles
from sharegroup.storage.rows import DeltaTables
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES, SHARE_PARTITION_TABLES, SHARE_PARTITIONS
from tests.tables.group_batches import COUNT, batch, gone, group, partition
from tests.tables.job_tables import T0, start


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the chunks of the files that are read."""
    read_table, read = DeltaFiles.table, list[str]()

    def counted(files: DeltaFiles, path: str) -> pa.Table:
        read.append(path.partition("/")[0])
        return read_table(files, path)

    monkeypatch.setattr(DeltaFiles, "table", counted)
    return read


def test_a_read_costs_the_chunks_that_were_written_since(tmp_path: Path, read: list[str]) -> None:
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    steps.commit(batch(0, map(partition, range(COUNT))))
    kept, once = CachedTables(str(tmp_path)), DeltaTables(str(tmp_path))

    def check(*chunks: str) -> None:
        read.clear()
        for group_ids in (["g0", "g11", "unknown"], ["unknown"], None):
            found = [{**row, "chunk": None} for row in kept.rows(SHARE_PARTITIONS, group_ids)]
            assert found == [{**row, "chunk": None} for row in once.rows(SHARE_PARTITIONS, group_ids)]
        assert sorted(read) == list(chunks)

    check("chunk=0", "chunk=1", "chunk=2")
    check()
    steps.commit(batch(1, [partition(CHUNK_ROWS + 100, 2)]))
    steps.commit(batch(2, [partition(CHUNK_ROWS + 100, 3), partition(COUNT)]))
    check("chunk=1", "chunk=2")
    steps.commit(batch(3, map(gone, range(CHUNK_ROWS))))
    check()
    assert len(kept._cached[SHARE_PARTITIONS.name]) == 2


def test_readers_of_a_path_accept_cached_tables(tmp_path: Path) -> None:
    start(tmp_path, specs=SHARE_PARTITION_TABLES)
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    steps.commit(batch(0, [partition(1)], [group("g0")]))
    kept = CachedTables(str(tmp_path))
    for batch_id, state in enumerate(("Stable", "Empty"), 1):
        steps.commit(Batch(batch_id, T0, {"share_groups": [{**group("g0"), "group_state": state}]}, positions={0: 1}))
        assert read_groups(kept) == read_groups(str(tmp_path)) != ()
        assert read_group(kept, "g0") == read_group(str(tmp_path), "g0") is not None
        assert read_share_group_offsets(kept, "g0") == read_share_group_offsets(str(tmp_path), "g0") != ()


def test_deleted_tables_are_missing_and_recreated_ones_are_read(tmp_path: Path) -> None:
    kept = CachedTables(str(tmp_path))
    for group_id in ("old", "new"):
        with pytest.raises(TableMissingError):
            read_groups(kept)
        steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
        steps.commit(batch(0, groups=[group(group_id)]))
        assert read_groups(kept) == ((group_id, "Stable"),)
        for path in tmp_path.iterdir():
            shutil.rmtree(path)
