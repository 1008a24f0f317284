"""Tables on a local disk after a power loss: torn entries are found, logged, and treated as never committed."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.storage.schemas import SHARE_GROUP_STATE
from sharegroup.storage.upkeep.state_base_upkeep import StateBaseUpkeep
from sharegroup.storage.writing.delta_table import DeltaVersions
from sharegroup.storage.writing.torn_log import recover_torn_tables
from sharegroup.storage.writing.versioned_table import Upkeep
from tests.tables.job_tables import UpkeepOf, batch, rows, start
from tests.tables.torn_tables import TORN, data_files, entries, lose, tear

STATE, LOG = "share_group_state", "delivery_log"
UPKEEP = Upkeep(timedelta(hours=24), 1_000)


def committed(root: Path, batches: int) -> CommitSteps:
    steps, _ = start(root)
    for batch_id in range(batches):
        steps.commit(batch(batch_id, offset=batch_id))
    return steps


@pytest.mark.parametrize("how", TORN)
def test_a_torn_newest_entry_counts_as_never_committed(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    newest = committed(tmp_path, 3).writers[0].version
    tear(entries(tmp_path / STATE)[-1], how)
    with caplog.at_level(logging.WARNING):
        assert recover_torn_tables(str(tmp_path)) == [STATE]
    assert len(caplog.records) == 1
    assert f"table {STATE}: version {newest} is lost, probably by a power loss: its log entry is" in caplog.text
    assert DeltaTable(str(tmp_path / STATE)).version() == newest - 1
    steps, _ = start(tmp_path)
    assert (steps.positions, steps.newest_batch("query-1")) == ({0: 2}, 2)  # delivery_log has batch 2
    assert rows(tmp_path, STATE, "batch_id") == [(0,), (1,)]


@pytest.mark.parametrize("how", [*TORN, "missing"])
def test_an_entry_with_a_torn_data_file_counts_as_never_committed(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    newest = committed(tmp_path, 3).writers[0].version
    (data,) = data_files(tmp_path / STATE, entries(tmp_path / STATE)[-1])
    if how == "missing":
        data.unlink()
    else:
        tear(data, how)
    assert recover_torn_tables(str(tmp_path)) == [STATE]
    assert f"version {newest} is lost, probably by a power loss: its data file" in caplog.text
    assert "1 log entries were renamed to *.torn. They contained batch 2 of query query-1" in caplog.text
    assert rows(tmp_path, STATE, "batch_id") == [(0,), (1,)]


def test_all_entries_from_the_first_torn_one_on_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    committed(tmp_path, 5)
    tear(entries(tmp_path / STATE)[-3], "zeros")
    assert recover_torn_tables(str(tmp_path)) == [STATE]
    assert (
        "3 log entries were renamed to *.torn. They contained batch 3 of query query-1, batch 4 of query query-1"
        in caplog.text
    )
    assert rows(tmp_path, STATE, "batch_id") == [(0,), (1,)]


def test_undamaged_tables_are_not_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """This is after an upkeep, whose old files are missing, and a start that has written only its lead commit."""
    steps = committed(tmp_path, 5)
    UpkeepOf(tmp_path).run(steps, local_versions=1)
    for name in (STATE, LOG):
        table = DeltaTable(str(tmp_path / name))
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    start(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert recover_torn_tables(str(tmp_path)) == []
    assert (sorted(tmp_path.rglob("*")), caplog.records) == (before, [])


def test_tables_that_are_not_there_or_on_an_object_store_are_left_alone(tmp_path: Path) -> None:
    assert recover_torn_tables(str(tmp_path / "none")) == []
    assert recover_torn_tables("s3://bucket/tables") == []


@pytest.mark.parametrize("how", TORN)
def test_a_torn_checkpoint_of_the_log_is_done_without(tmp_path: Path, how: str) -> None:
    steps = committed(tmp_path, 3)
    UpkeepOf(tmp_path).run(steps)
    (checkpoint,) = (tmp_path / STATE / "_delta_log").glob("*.checkpoint.parquet")
    tear(checkpoint, how)
    assert recover_torn_tables(str(tmp_path)) == []
    assert rows(tmp_path, STATE, "batch_id") == [(0,), (1,), (2,)]


def test_a_checkpoint_of_the_log_with_a_torn_entry_goes_too(tmp_path: Path) -> None:
    steps = committed(tmp_path, 3)
    newest = steps.writers[0].version
    UpkeepOf(tmp_path).run(steps)
    tear(tmp_path / STATE / "_delta_log" / f"{newest:020}.json", "empty")
    assert recover_torn_tables(str(tmp_path)) == [STATE]
    assert not list((tmp_path / STATE / "_delta_log").glob("*.checkpoint.parquet"))
    assert rows(tmp_path, STATE, "batch_id") == [(0,), (1,)]


def test_a_table_that_was_torn_when_it_was_made_is_made_again(tmp_path: Path) -> None:
    committed(tmp_path, 0)
    for name in (STATE, LOG):
        for entry in entries(tmp_path / name):
            tear(entry, "empty")
    assert recover_torn_tables(str(tmp_path)) == [STATE, LOG]
    committed(tmp_path, 1)
    assert rows(tmp_path, STATE, "batch_id") == [(0,)]


@pytest.mark.parametrize("lost", ["entry", "all of it"])
def test_a_base_of_lost_versions_goes_with_them(tmp_path: Path, lost: str) -> None:
    """It would contradict the table as soon as other commits reuse the version numbers of the lost ones."""
    steps = committed(tmp_path, 3)
    upkeep = StateBaseUpkeep(str(tmp_path), least_records=1)
    upkeep.run(DeltaVersions(str(tmp_path), SHARE_GROUP_STATE).handle, UPKEEP)
    kept = DeltaTable(str(tmp_path / "share_group_state_base")).to_pyarrow_table()["as_of_version"].to_pylist()
    for batch_id in (3, 4):
        steps.commit(batch(batch_id, offset=batch_id))
    upkeep.run(DeltaVersions(str(tmp_path), SHARE_GROUP_STATE).handle, UPKEEP)
    if lost == "entry":
        tear(entries(tmp_path / STATE)[-1], "empty")
    else:
        lose(tmp_path / STATE, 1)
    found = recover_torn_tables(str(tmp_path))
    assert found == ([STATE] if lost == "entry" else []) + ["share_group_state_base"]
    base = DeltaTable(str(tmp_path / "share_group_state_base")).to_pyarrow_table()
    assert base["as_of_version"].to_pylist() == kept
