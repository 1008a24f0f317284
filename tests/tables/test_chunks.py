"""Tables of current state in Delta: a commit replaces the files of the chunks that it changes, even if the job dies."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.commit.current_rows import CHUNK_ROWS
from sharegroup.job.commit.repeated_batch import RepeatedBatchError
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES, SHARE_GROUPS, SHARE_PARTITIONS, TableSpec, table_path
from sharegroup.storage.upkeep.table_upkeep import TableUpkeep
from sharegroup.storage.writing.delta_table import DeltaVersions
from sharegroup.storage.writing.versioned_table import Upkeep
from tests.params import thorough
from tests.tables.group_batches import COUNT, batch, gone, group, partition
from tests.tables.job_tables import Died, dies_after, start


def table(root: Path, spec: TableSpec = SHARE_PARTITIONS, version: int | None = None) -> DeltaTable:
    return DeltaTable(table_path(str(root), spec), version=version)


def files(root: Path, spec: TableSpec = SHARE_PARTITIONS) -> dict[str, set[str]]:
    """Return {"chunk=0": names of its files}."""
    found: dict[str, set[str]] = {}
    for uri in table(root, spec).file_uris():
        *_, chunk, name = uri.split("/")
        found.setdefault(chunk, set()).add(name)
    return found


def epochs(root: Path, version: int | None = None) -> dict[int, int]:
    rows = table(root, version=version).to_pyarrow_table(columns=["partition", "state_epoch"]).to_pylist()
    assert len({row["partition"] for row in rows}) == len(rows)
    return {row["partition"]: row["state_epoch"] for row in rows}


def content(root: Path) -> dict[str, list[str]]:
    return {
        spec.name: sorted(map(repr, table(root, spec).to_pyarrow_table().to_pylist()))
        for spec in GROUP_COORDINATOR_TABLES
    }


@pytest.fixture
def steps(tmp_path: Path) -> CommitSteps:
    """Return the steps of a job that has committed its first batch."""
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    steps.commit(batch(0, map(partition, range(COUNT)), [group("g")]))
    return steps


def test_a_commit_replaces_the_files_of_the_chunks_that_it_touches(tmp_path: Path, steps: CommitSteps) -> None:
    before, version = files(tmp_path), table(tmp_path).version()
    assert {chunk: len(names) for chunk, names in before.items()} == {f"chunk={number}": 1 for number in range(3)}
    steps.commit(batch(1, [partition(CHUNK_ROWS + 7, 2)]))
    after = files(tmp_path)
    assert {chunk for chunk in before if before[chunk] != after[chunk]} == {"chunk=1"}
    assert (table(tmp_path).version(), len(after["chunk=1"])) == (version + 1, 1)
    assert epochs(tmp_path) == dict.fromkeys(range(COUNT), 1) | {CHUNK_ROWS + 7: 2}
    steps.commit(batch(2, [gone(CHUNK_ROWS), partition(COUNT)]))
    assert {chunk for chunk in after if after[chunk] != files(tmp_path)[chunk]} == {"chunk=1", "chunk=2"}
    assert epochs(tmp_path, version) == dict.fromkeys(range(COUNT), 1)
    assert epochs(tmp_path, version + 1)[CHUNK_ROWS + 7] == 2


def test_a_chunk_without_rows_has_no_file(tmp_path: Path, steps: CommitSteps) -> None:
    steps.commit(batch(1, map(gone, range(CHUNK_ROWS, 2 * CHUNK_ROWS))))
    assert set(files(tmp_path)) == {"chunk=0", "chunk=2"}
    steps.commit(batch(2, map(gone, range(COUNT))))
    assert files(tmp_path) == {}
    steps.commit(batch(3, [partition(3)]))
    assert epochs(tmp_path) == {3: 1}


def test_a_batch_without_rows_of_a_table_leaves_its_files_alone(tmp_path: Path, steps: CommitSteps) -> None:
    before = {spec.name: files(tmp_path, spec) for spec in GROUP_COORDINATOR_TABLES}
    version = table(tmp_path, SHARE_GROUPS).version()
    steps.commit(batch(1))
    assert table(tmp_path, SHARE_GROUPS).version() == version + 1  # with the positions
    assert {spec.name: files(tmp_path, spec) for spec in GROUP_COORDINATOR_TABLES} == before
    assert start(tmp_path, specs=GROUP_COORDINATOR_TABLES)[0].positions == {0: 1}


def test_upkeep_leaves_chunks_alone(tmp_path: Path, steps: CommitSteps) -> None:
    for batch_id in range(1, 4):
        steps.commit(batch(batch_id, [partition(batch_id, 2)]))
    before = files(tmp_path)
    TableUpkeep(DeltaVersions(str(tmp_path), SHARE_PARTITIONS), "upkeep").run(1, Upkeep(timedelta(hours=24), 1_000))
    table(tmp_path).optimize.compact()
    assert files(tmp_path) == before
    steps.commit(batch(4, [partition(4, 2)]))
    assert {chunk for chunk in before if before[chunk] != files(tmp_path)[chunk]} == {"chunk=0"}
    assert epochs(tmp_path) == dict.fromkeys(range(COUNT), 1) | dict.fromkeys(range(1, 5), 2)


#: Rows that change, are added and are removed in all chunks, two of which are merged.
BATCHES = (
    batch(0, map(partition, range(COUNT)), [group("g")]),
    batch(1, [partition(5, 2), gone(6), *map(partition, range(COUNT, COUNT + 600))], [group("h")]),
    batch(2, [*map(gone, range(CHUNK_ROWS - 100)), *map(gone, range(CHUNK_ROWS, 2 * CHUNK_ROWS - 100))]),
    batch(3, [partition(CHUNK_ROWS - 1, 3), partition(2 * CHUNK_ROWS - 1, 3), partition(5, 1)]),
)


@pytest.fixture(scope="module")
def never_died(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("never-died")
    steps, _ = start(root, specs=GROUP_COORDINATOR_TABLES)
    for each in BATCHES:
        steps.commit(each)
    assert len(files(root)) == 3
    return root


@pytest.mark.parametrize(
    ("step", "keeps_checkpoint"),
    [(1, True), (2, False), (3, True), *thorough((1, False), (2, True), (3, False), (4, True), (4, False))],
)
def test_tables_after_a_crash_equal_those_without_one(
    tmp_path: Path, never_died: Path, step: int, keeps_checkpoint: bool
) -> None:
    """The job dies in each batch. Without a checkpoint, a batch that is in the tables is not run again."""
    query_id = "query-1"
    for number, each in enumerate(BATCHES):
        steps, _ = start(tmp_path, query_id, GROUP_COORDINATOR_TABLES, dies_after(step))
        with pytest.raises(Died):
            steps.commit(each)
        if step > 1 and not keeps_checkpoint:
            query_id = f"query-{number + 2}"
            continue
        again, _ = start(tmp_path, query_id, GROUP_COORDINATOR_TABLES)
        again.commit(each)
        known = {row["partition"]: row["state_epoch"] for row in again.current_rows("share_partitions")}
        assert known == epochs(tmp_path)
    start(tmp_path, query_id, GROUP_COORDINATOR_TABLES)
    assert content(tmp_path) == content(never_died)


def test_a_batch_that_was_committed_before_leaves_the_rows_as_they_are(tmp_path: Path, steps: CommitSteps) -> None:
    with pytest.raises(RepeatedBatchError):
        steps.commit(batch(0, [partition(1, 9), gone(2), partition(COUNT, 9)]))
    steps.commit(batch(0, map(partition, range(COUNT)), [group("g")]))
    assert steps.find_row("share_partitions", partition(1))["state_epoch"] == 1  # type: ignore[index]
    assert len(steps.current_rows("share_partitions")) == COUNT
    steps.commit(batch(1, [partition(3, 2)]))
    assert epochs(tmp_path) == dict.fromkeys(range(COUNT), 1) | {3: 2}
