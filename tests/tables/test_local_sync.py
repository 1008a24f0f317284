"""What a job has acknowledged is on the local disk, and a power loss removes nothing of it."""

from __future__ import annotations

import functools
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES, SHARE_GROUP_STATE
from sharegroup.storage.upkeep.state_base_upkeep import StateBaseUpkeep
from sharegroup.storage.writing.delta_commit import commit_properties
from sharegroup.storage.writing.delta_table import DeltaTableWriter, DeltaVersions
from sharegroup.storage.writing.leaders import last_leader_epoch, record_leader
from sharegroup.storage.writing.torn_log import recover_torn_tables
from sharegroup.storage.writing.versioned_table import Stamp, Upkeep
from tests.tables import group_batches
from tests.tables.job_tables import Died, UpkeepOf, batch, dies_after, rows, start
from tests.tables.power_loss import PowerLoss

STATE, LOG = "share_group_state", "delivery_log"
_UPKEEP = Stamp("upkeep", None, is_upkeep=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tables").mkdir()
    return tmp_path / "tables"


@pytest.fixture
def disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> PowerLoss:
    return PowerLoss(root, monkeypatch)


def restarted(disk: PowerLoss, tmp_path: Path) -> Path:
    """Return the tables after a power loss and a start of the job without a checkpoint."""
    left = disk.left_in(tmp_path / "left")
    recover_torn_tables(str(left))
    start(left, query_id="query-2")
    return left


def test_a_commit_survives_a_power_loss(root: Path, disk: PowerLoss, tmp_path: Path) -> None:
    steps, _ = start(root)
    for batch_id in range(3):
        steps.commit(batch(batch_id, offset=batch_id))
        left = restarted(disk, tmp_path)
        wanted = [(each,) for each in range(batch_id + 1)]
        assert (rows(left, STATE, "batch_id"), rows(left, LOG, "batch_id")) == (wanted, wanted)


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_power_loss_at_a_commit_step_equals_a_crash_there(
    root: Path, disk: PowerLoss, tmp_path: Path, step: int
) -> None:
    steps, _ = start(root)
    steps.commit(batch(0))
    steps, _ = start(root, fault_point=dies_after(step))
    with pytest.raises(Died):
        steps.commit(batch(1, offset=1))
    left = restarted(disk, tmp_path)
    wanted = [(0,)] if step == 1 else [(0,), (1,)]  # delivery_log has the deferred rows of the outbox
    assert (rows(left, STATE, "batch_id"), rows(left, LOG, "batch_id")) == (wanted, wanted)


def test_upkeep_before_a_commit_survives_with_it(root: Path, disk: PowerLoss, tmp_path: Path) -> None:
    """Upkeep of another process has not synced its commit when a batch is committed after it."""
    steps, _ = start(root)
    for batch_id in range(4):
        steps.commit(batch(batch_id, offset=batch_id))
    for name in (STATE, LOG):
        DeltaTable(str(root / name)).optimize.compact(commit_properties=commit_properties(_UPKEEP))
    steps.commit(batch(4, offset=4))
    left = restarted(disk, tmp_path)
    assert rows(left, STATE, "batch_id") == [(each,) for each in range(5)]


def test_upkeep_removes_nothing_before_its_replacement_is_on_the_disk(
    root: Path, disk: PowerLoss, tmp_path: Path
) -> None:
    steps, _ = start(root)
    for batch_id in range(8):
        steps.commit(batch(batch_id, offset=batch_id))
        UpkeepOf(root).run(steps, local_versions=1)
        left = restarted(disk, tmp_path)
        assert rows(left, STATE, "batch_id") == [(each,) for each in range(batch_id + 1)]


def test_a_base_is_on_the_disk_before_days_go_by_it(root: Path, disk: PowerLoss, tmp_path: Path) -> None:
    steps, _ = start(root)
    steps.commit(batch(0))
    state = DeltaVersions(str(root), SHARE_GROUP_STATE).handle
    StateBaseUpkeep(str(root), least_records=1).run(state, Upkeep(timedelta(hours=24), 1_000))
    left = restarted(disk, tmp_path)
    assert rows(left, "share_group_state_base", "group_id") == [("g",)]


def test_tables_of_current_state_survive_too(root: Path, disk: PowerLoss, tmp_path: Path) -> None:
    steps, _ = start(root, specs=GROUP_COORDINATOR_TABLES)
    steps.commit(group_batches.batch(0, [group_batches.partition(7)], [group_batches.group("g")]))
    record_leader(str(root), "group_coordinator", 1, "query-1", "application", {})
    left = disk.left_in(tmp_path / "left")
    assert recover_torn_tables(str(left)) == []
    for spec in GROUP_COORDINATOR_TABLES:
        assert rows(left, spec.name, spec.key[0]) == rows(root, spec.name, spec.key[0])
    assert last_leader_epoch(str(left), "query-1") == 1


def test_an_unsynced_commit_of_another_process_is_synced_before_the_skip(
    root: Path, disk: PowerLoss, tmp_path: Path
) -> None:
    unsynced, _ = start(root, writer=functools.partial(DeltaTableWriter, is_synced=False))
    unsynced.commit(batch(0))
    start(root)[0].commit(batch(0))
    assert rows(restarted(disk, tmp_path), STATE, "batch_id") == [(0,)]


def test_without_the_option_nothing_is_synced(root: Path, disk: PowerLoss, tmp_path: Path) -> None:
    steps, _ = start(root)
    before = {path: path.read_bytes() for path in disk.left_in(tmp_path / "left").rglob("*.json")}
    steps = CommitSteps([DeltaTableWriter(str(root), w.spec, is_synced=False) for w in steps.writers], _NoProducer())
    steps.become_leader()
    steps.commit(batch(0))
    assert {path: path.read_bytes() for path in disk.left_in(tmp_path / "left").rglob("*.json")} == before


class _NoProducer:
    def send(self, responses: object, requests: object) -> None:
        """Discard the rows."""
