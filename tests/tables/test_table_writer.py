"""The fence between writers, on tables in Delta and in memory, with one contract for both."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from sharegroup.errors import FencedLeaderError
from sharegroup.storage.schemas import DELIVERY_LOG, SHARE_GROUPS, TableSpec
from sharegroup.storage.upkeep.table_upkeep import TableUpkeep
from sharegroup.storage.writing.delta_table import DeltaVersions
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import NotCommittedError, Stamp, TableStoreError, Upkeep, Write
from tests.harness.memory_tables import MemoryTables
from tests.tables.table_kinds import DeltaTableKind, TableKind

BOTH_FORMS = pytest.mark.parametrize("spec", [DELIVERY_LOG, SHARE_GROUPS], ids=["grows", "current"])


@pytest.fixture(params=["delta", "memory"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> TableKind:
    return DeltaTableKind(tmp_path) if request.param == "delta" else MemoryTables()


def info(leader_epoch: int, batch_id: int) -> dict[str, Any]:
    return {"leader_epoch": leader_epoch, "batch_id": batch_id}


def row(spec: TableSpec, group_id: str) -> Write:
    """Return a write of one row: added, or as the only row of its chunk in a table of current state."""
    return Write([{"group_id": group_id}]) if spec.is_append_only else Write([{"group_id": group_id, "chunk": 0}], [0])


def commit(writer: TableWriter, epoch: int, batch_id: int) -> bool:
    return writer.commit(f"query-{epoch}", batch_id, lambda: row(writer.spec, f"g{batch_id}"), info(epoch, batch_id))


def leader(tables: TableKind, spec: TableSpec, epoch: int, batches: int = 0) -> TableWriter:
    """Return a writer that leads, and has committed some batches."""
    writer = tables.writer(spec, f"writer-{epoch}")
    writer.become_leader(epoch)
    for batch_id in range(batches):
        assert commit(writer, epoch, batch_id)
    return writer


def groups(tables: TableKind, spec: TableSpec) -> list[str]:
    return sorted(row["group_id"] for row in tables.rows(spec))


def upkeep(
    tables: TableKind, spec: TableSpec, epoch: int, prune_before: str | None = None, local_versions: int = 1_000
) -> None:
    """Return the upkeep of a leader, beside its writer."""
    kept = Upkeep(timedelta(hours=24), local_versions, prune_before)
    TableUpkeep(tables.table(spec), f"upkeep-{epoch}").run(epoch, kept)


def fenced(mine: int, there: int) -> Any:
    return pytest.raises(
        FencedLeaderError,
        match=rf"FENCED_LEADER_EPOCH: .*own leader epoch: {mine}; now in the table: leader epoch {there},",
    )


# -- batches -----------------------------------------------------------------------------------------------------------


@BOTH_FORMS
def test_batches_are_rows_versions_and_the_newest_info(tables: TableKind, spec: TableSpec) -> None:
    writer = leader(tables, spec, 3, batches=2)
    assert (writer.version, writer.leader_epoch, writer.newest_batch("query-3"), writer.newest_batch("other")) == (
        3,
        3,
        1,
        -1,
    )
    assert groups(tables, spec) == (["g0", "g1"] if spec.is_append_only else ["g1"])
    assert [row["group_id"] for row in tables.rows(spec, version=2)] == ["g0"]
    assert writer.read_rows() == tables.rows(spec)
    assert tables.writer(spec, "reader").last_info == writer.last_info == info(3, 1)
    assert tables.newest_version(spec) == 3


@BOTH_FORMS
@pytest.mark.parametrize("batch_id", [5, 4, 0])
def test_committed_batches_are_not_committed_again(tables: TableKind, spec: TableSpec, batch_id: int) -> None:
    writer = leader(tables, spec, 1)
    assert commit(writer, 1, 5)
    for again in (writer, leader(tables, spec, 2)):
        version = again.version
        assert not again.commit("query-1", batch_id, pytest.fail)
        assert (again.version, again.last_info) == (version, info(1, 5))
    assert again.commit("query-1", 6, lambda: row(spec, "g6"))
    assert again.commit("query-2", batch_id, lambda: row(spec, "g7"))


def test_a_commit_replaces_its_chunks_and_no_others(tables: TableKind) -> None:
    writer = leader(tables, SHARE_GROUPS, 1)

    def put(batch_id: int, chunks: dict[int, str]) -> None:
        found = [{"group_id": group_id, "chunk": chunk} for chunk, names in chunks.items() for group_id in names]
        assert writer.commit("query-1", batch_id, lambda: Write(found, [*chunks]))

    contents = [{0: "ab", 1: "cd", 2: "e"}, {1: "cx"}, {0: "", 3: "fg"}, {}, {0: "z", 1: "", 2: "", 3: ""}]
    expected = [["abcde"], ["abcex"], ["cefgx"], ["cefgx"], ["z"]]
    for batch_id, chunks in enumerate(contents):
        put(batch_id, chunks)
    for batch_id, names in enumerate(expected):
        version = tables.newest_version(SHARE_GROUPS) - len(contents) + 1 + batch_id
        found = sorted(row["group_id"] for row in tables.rows(SHARE_GROUPS, version=version))
        assert ["".join(found)] == names


def test_rows_of_a_chunk_that_is_not_replaced_are_rejected(tables: TableKind) -> None:
    writer = leader(tables, SHARE_GROUPS, 1, batches=1)
    with pytest.raises((TableStoreError, AssertionError)):
        writer.commit("query-1", 1, lambda: Write([{"group_id": "g", "chunk": 1}], [0]))
    assert groups(tables, SHARE_GROUPS) == ["g0"]


# -- becoming the leader -----------------------------------------------------------------------------------------------


@BOTH_FORMS
def test_a_higher_epoch_fences_permanently(tables: TableKind, spec: TableSpec) -> None:
    old = leader(tables, spec, 1, batches=1)
    new = leader(tables, spec, 4)
    for _ in range(2):
        with fenced(1, 4):
            commit(old, 1, 1)
    assert commit(new, 4, 0)
    with pytest.raises(
        FencedLeaderError,
        match=f"upkeep of {spec.name} for leader epoch 1 was cancelled: the table now has leader epoch 4",
    ):
        upkeep(tables, spec, 1)


@pytest.mark.parametrize("there", [3, 4])
def test_a_late_lead_commit_is_fenced(tables: TableKind, there: int) -> None:
    late, later = (tables.writer(DELIVERY_LOG, f"late-{number}") for number in range(2))
    first = leader(tables, DELIVERY_LOG, there)
    with fenced(3, there):
        late.become_leader(3)
    tables.before_next_commit(lambda: pytest.fail("it sees it at once"))
    later.refresh()
    with fenced(3, there):
        later.become_leader(3)
    assert first.version == tables.newest_version(DELIVERY_LOG)


@BOTH_FORMS
def test_a_new_leader_ignores_late_commits_of_the_old_one(tables: TableKind, spec: TableSpec) -> None:
    old = leader(tables, spec, 1, batches=1)
    new = tables.writer(spec, "new")
    assert (new.newest_batch("query-1"), new.last_info) == (0, info(1, 0))
    commit(old, 1, 1)
    tables.before_next_commit(lambda: None)
    tables.before_next_commit(lambda: commit(old, 1, 2) and None)
    new.become_leader(2)
    assert (new.newest_batch("query-1"), new.last_info, new.leader_epoch) == (2, info(1, 2), 2)
    assert new.read_rows() == tables.rows(spec)
    with fenced(1, 2):
        commit(old, 1, 3)
    assert commit(new, 2, 0)


def test_a_new_leader_ignores_lower_leads_and_commits_of_others(tables: TableKind) -> None:
    new = tables.writer(DELIVERY_LOG, "new")
    leader(tables, DELIVERY_LOG, 3)
    tables.write_from_outside(DELIVERY_LOG, [{"group_id": "outside"}])
    new.become_leader(4)
    assert commit(new, 4, 0)
    assert groups(tables, DELIVERY_LOG) == ["g0", "outside"]


@pytest.mark.parametrize("chunk", [0, 1])
def test_a_former_leader_is_fenced_whatever_chunk_it_writes(tables: TableKind, chunk: int) -> None:
    """Two commits are a compare-and-set even if they change no common row."""
    old = leader(tables, SHARE_GROUPS, 1, batches=1)
    elsewhere = Write([{"group_id": "x", "chunk": chunk}], [chunk])
    new = tables.writer(SHARE_GROUPS, "new")

    def lead() -> None:
        new.become_leader(2)
        assert commit(new, 2, 7)

    tables.before_next_commit(lead)
    with fenced(1, 2):
        old.commit("query-1", 1, lambda: elsewhere)
    assert groups(tables, SHARE_GROUPS) == ["g7"]
    assert new.commit("query-2", 8, lambda: elsewhere)


# -- commits without a response, and a store that fails ----------------------------------------------------------------


@BOTH_FORMS
def test_a_lost_response_fences_nobody(tables: TableKind, spec: TableSpec) -> None:
    writer = tables.writer(spec, "mine")
    for _ in range(3):
        tables.lose_next_response()
    writer.become_leader(1)
    assert commit(writer, 1, 0)
    assert commit(writer, 1, 1)
    assert commit(writer, 1, 2)
    assert groups(tables, spec) == (["g0", "g1", "g2"] if spec.is_append_only else ["g2"])
    assert writer.version == tables.newest_version(spec) == 4


def test_a_leader_that_lost_a_response_and_the_lead_is_fenced(tables: TableKind) -> None:
    writer, first = tables.writer(DELIVERY_LOG, "mine"), tables.table(DELIVERY_LOG)
    tables.lose_next_response()
    refresh = writer._table.refresh

    def refresh_late() -> None:
        if not first.version:
            first.refresh()
            leader(tables, DELIVERY_LOG, 2)
        refresh()

    writer._table.refresh = refresh_late  # type: ignore[method-assign]
    with fenced(1, 2):
        writer.become_leader(1)


def test_a_commit_that_the_store_rejects_can_be_retried(tables: TableKind) -> None:
    writer = tables.writer(DELIVERY_LOG, "mine")
    tables.reject_next_commit()
    with pytest.raises(NotCommittedError, match="no space left"):
        writer.become_leader(1)
    writer.become_leader(1)
    tables.reject_next_commit()
    with pytest.raises(NotCommittedError, match="no space left"):
        commit(writer, 1, 0)
    assert commit(writer, 1, 0)
    assert groups(tables, DELIVERY_LOG) == ["g0"]


def test_an_unavailable_store_fences_nobody(tables: TableKind) -> None:
    writer = leader(tables, DELIVERY_LOG, 1)
    tables.is_unavailable = True
    for action in (lambda: commit(writer, 1, 0), lambda: upkeep(tables, DELIVERY_LOG, 1), writer.refresh):
        with pytest.raises(TableStoreError, match="the store is away"):
            action()
    tables.is_unavailable = False
    assert commit(writer, 1, 0)


# -- commits of others -------------------------------------------------------------------------------------------------


@BOTH_FORMS
def test_a_commit_of_another_tool_fences(tables: TableKind, spec: TableSpec) -> None:
    writer = leader(tables, spec, 2, batches=1)
    tables.write_from_outside(spec)
    before = tables.newest_version(spec)
    for _ in range(2):
        with fenced(2, 2):
            commit(writer, 2, 1)
    assert tables.newest_version(spec) == before
    assert commit(leader(tables, spec, 3), 3, 0)


def test_compaction_by_another_tool_fences(tables: TableKind) -> None:
    writer = leader(tables, DELIVERY_LOG, 2, batches=3)
    tables.compact_from_outside(DELIVERY_LOG)
    with fenced(2, 2):
        commit(writer, 2, 3)


def test_a_writer_that_missed_trimmed_commits_writes_nothing(tmp_path: Path) -> None:
    """The file of the version that it would write is missing, so its name is free. A start after that one is fenced."""
    tables = DeltaTableKind(tmp_path)
    asleep = leader(tables, DELIVERY_LOG, 1, batches=1)
    awake = leader(tables, DELIVERY_LOG, 2, batches=3)
    for batch_id in range(3, 6):
        upkeep(tables, DELIVERY_LOG, 2, local_versions=1)
        assert commit(awake, 2, batch_id)
    log = tmp_path / "delivery_log" / "_delta_log"
    before = sorted(log.iterdir())
    assert int(before[0].name[:20]) > asleep.version + 1
    with pytest.raises(TableStoreError, match="Invalid table version"):
        commit(asleep, 1, 1)
    assert sorted(log.iterdir()) == before
    assert commit(awake, 2, 6)


def test_unreadable_commits_fence() -> None:
    tables = MemoryTables()
    table = tables.table(DELIVERY_LOG)
    writer = TableWriter(table, "mine")
    writer.become_leader(1)
    old = leader(tables, DELIVERY_LOG, 2)
    table.commits = lambda count: []  # type: ignore[method-assign]
    with fenced(1, 2):
        commit(writer, 1, 0)
    assert commit(old, 2, 0)


def test_upkeep_after_a_commit_from_outside_hides_it_from_nobody(tables: TableKind) -> None:
    writer = leader(tables, DELIVERY_LOG, 1, batches=3)
    tables.write_from_outside(DELIVERY_LOG)
    upkeep(tables, DELIVERY_LOG, 1)
    with fenced(1, 1):
        commit(writer, 1, 3)


# -- upkeep beside a writer --------------------------------------------------------------------------------------------


def test_a_batch_is_committed_after_the_upkeep_that_was_faster(tables: TableKind) -> None:
    writer = leader(tables, DELIVERY_LOG, 1, batches=3)
    for batch_id in (3, 4):
        tables.before_next_commit(lambda: upkeep(tables, DELIVERY_LOG, 1))
        assert commit(writer, 1, batch_id)
    assert groups(tables, DELIVERY_LOG) == [f"g{batch_id}" for batch_id in range(5)]


def test_upkeep_goes_over_the_batches_that_were_faster(tables: TableKind) -> None:
    writer = leader(tables, DELIVERY_LOG, 1, batches=3)
    tables.before_next_commit(lambda: [commit(writer, 1, batch_id) for batch_id in (3, 4)] and None)
    upkeep(tables, DELIVERY_LOG, 1)
    assert commit(writer, 1, 5)
    assert groups(tables, DELIVERY_LOG) == [f"g{batch_id}" for batch_id in range(6)]
    assert tables.writer(DELIVERY_LOG, "reader").last_info == info(1, 5)


def test_days_are_dropped_while_batches_are_committed(tmp_path: Path) -> None:
    """delta-rs detects that the new files are of other days."""
    tables = DeltaTableKind(tmp_path)
    writer = leader(tables, DELIVERY_LOG, 1)
    for number in range(2):
        of_day = Write([{"group_id": f"g{number}", "day": date(2023, 11, 13 + number)}])
        assert writer.commit("query-1", number, lambda of_day=of_day: of_day)  # type: ignore[misc]
    behind = DeltaVersions(tables.root, DELIVERY_LOG)
    assert writer.commit("query-1", 2, lambda: Write([{"group_id": "g2", "day": date(2023, 11, 14)}]))
    stamp = Stamp("upkeep", None, is_upkeep=True)
    behind.upkeep(Upkeep(timedelta(hours=24), 1_000, "day < '2023-11-14'"), stamp)
    assert groups(tables, DELIVERY_LOG) == ["g1", "g2"]
    assert commit(writer, 1, 3)


@pytest.mark.parametrize("batches", [0, 2])
def test_the_upkeep_of_an_earlier_leader_fences_nobody(tables: TableKind, batches: int) -> None:
    """It is committed after the new leader's commits, and carries the old leader's info."""
    old = leader(tables, DELIVERY_LOG, 1, batches=3)
    new = tables.writer(DELIVERY_LOG, "new")

    def lead() -> None:
        new.become_leader(2)
        for batch_id in range(batches):
            assert commit(new, 2, batch_id)

    before = tables.newest_version(DELIVERY_LOG)
    tables.before_next_commit(lead)
    upkeep(tables, DELIVERY_LOG, 1)
    assert tables.newest_version(DELIVERY_LOG) > before + 1 + batches  # it was compacted
    newest = info(2, batches - 1) if batches else info(1, 2)
    assert tables.writer(DELIVERY_LOG, "reader").last_info == newest
    assert commit(new, 2, batches)
    upkeep(tables, DELIVERY_LOG, 2)
    assert commit(new, 2, batches + 1)
    with fenced(1, 2):
        commit(old, 1, 3)
    assert groups(tables, DELIVERY_LOG) == sorted(
        [f"g{batch_id}" for batch_id in range(3)] + [f"g{batch_id}" for batch_id in range(batches + 2)]
    )


# -- upkeep ------------------------------------------------------------------------------------------------------------


@BOTH_FORMS
def test_upkeep_changes_no_rows_and_no_info(tables: TableKind, spec: TableSpec) -> None:
    writer = leader(tables, spec, 1, batches=4)
    before = groups(tables, spec)
    for _ in range(2):
        upkeep(tables, spec, 1)
    assert groups(tables, spec) == before
    assert tables.writer(spec, "reader").last_info == info(1, 3)
    assert commit(writer, 1, 4)


def test_an_upkeep_that_the_store_rejects_fails(tables: TableKind) -> None:
    writer = leader(tables, DELIVERY_LOG, 1, batches=2)
    tables.reject_next_commit()
    with pytest.raises(NotCommittedError, match="no space left"):
        upkeep(tables, DELIVERY_LOG, 1)
    upkeep(tables, DELIVERY_LOG, 1)
    assert commit(writer, 1, 2)


def test_an_upkeep_whose_response_is_lost_is_repeated_later(tables: TableKind) -> None:
    writer = leader(tables, DELIVERY_LOG, 1, batches=2)
    tables.lose_next_response()
    with pytest.raises(NotCommittedError, match="no answer came"):
        upkeep(tables, DELIVERY_LOG, 1)
    upkeep(tables, DELIVERY_LOG, 1)
    assert commit(writer, 1, 2)


def test_upkeep_deletes_the_given_days(tables: TableKind) -> None:
    writer = leader(tables, DELIVERY_LOG, 1)
    for number in range(2):
        of_day = Write([{"group_id": f"g{number}", "day": date(2023, 11, 13 + number)}])
        assert writer.commit("query-1", number, lambda of_day=of_day: of_day)  # type: ignore[misc]
    upkeep(tables, DELIVERY_LOG, 1, "day < '2023-11-14'")
    assert groups(tables, DELIVERY_LOG) == ["g1"]


# -- lost commits ------------------------------------------------------------------------------------------------------


@BOTH_FORMS
def test_a_table_goes_back_to_a_batch(tables: TableKind, spec: TableSpec) -> None:
    leader(tables, spec, 1, batches=3)
    before = tables.rows(spec, tables.newest_version(spec) - 1)
    writer = leader(tables, spec, 2)
    version = writer.version
    assert writer.roll_back("query-1", 1, 2, 2) == 1
    assert (tables.rows(spec), writer.version, tables.newest_version(spec)) == (before, version + 1, version + 1)
    assert commit(writer, 2, 0)
    assert writer.newest_batch("query-1") == 2  # the batch id is never used again


@BOTH_FORMS
def test_a_table_is_rolled_back_to_before_a_leader(tables: TableKind, spec: TableSpec) -> None:
    leader(tables, spec, 1, batches=1)
    leader(tables, spec, 2, batches=1)
    writer = leader(tables, spec, 3)
    assert writer.roll_back("query-1", 0, 2, 3) == 0
    assert groups(tables, spec) == ["g0"]
