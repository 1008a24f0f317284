"""Disks that lose what was not synced, lose commits, or are full: no promise is broken, planted defects are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sharegroup.job.commit import commit_steps, query_run
from sharegroup.spark.job import supervisor
from tests.simulation.checkpoint_folder import CheckpointFolder
from tests.simulation.job import job_adapter
from tests.simulation.job.simulated_tables import SimulatedTables, SlowTable
from tests.simulation.run import run

pytestmark = pytest.mark.long

Plant = Callable[[pytest.MonkeyPatch], None]


def commits_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A commit is reported when the operating system has it."""
    patch.setattr(SlowTable, "sync", lambda _: None)


def torn_tables_are_opened(patch: pytest.MonkeyPatch) -> None:
    """A start does not look for torn files."""
    patch.setattr(SimulatedTables, "recover_torn", lambda _: [])


def a_torn_checkpoint_is_gone_on_from(patch: pytest.MonkeyPatch) -> None:
    """A start does not look whether the machine was started since."""
    patch.setattr(CheckpointFolder, "is_of_earlier_boot", lambda *_: False)


def a_checkpoint_ahead_is_gone_on_from(patch: pytest.MonkeyPatch) -> None:
    """A start compares only whether its checkpoint is behind the tables."""
    for module in (query_run, job_adapter):
        patch.setattr(module, "reject_checkpoint_ahead", lambda *_: None)


def tables_stay_at_different_batches(patch: pytest.MonkeyPatch) -> None:
    """What one table has lost, others keep."""
    patch.setattr(commit_steps, "roll_back_tables", lambda *_: {})


def a_full_disk_ends_the_job(patch: pytest.MonkeyPatch) -> None:
    """It is a failure like any other."""
    patch.setattr(supervisor, "is_store_outage", lambda _: False)


#: By name: the defect, the fault that shows it, and the rule by which it must be found.
DEFECTS: dict[str, tuple[Plant, str, str]] = {
    plant.__name__: (plant, fault, rule)
    for plant, fault, rule in (
        (commits_are_not_synced, "power_loss", "what is answered is true"),
        (torn_tables_are_opened, "power_loss", "tables can be read"),
        (a_torn_checkpoint_is_gone_on_from, "power_loss", "everything is delivered"),
        (a_checkpoint_ahead_is_gone_on_from, "lost_commits", "views agree"),
        (tables_stay_at_different_batches, "lost_commits", "finished below the start offset"),
        (a_full_disk_ends_the_job, "full_disk", "a full disk is waited out"),
    )
}
#: Enough that each defect shows in one of them.
_SEEDS = range(8)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_of_lost_files_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, fault, rule = DEFECTS[name]
    plant(monkeypatch)
    assert any(rule in {violation.rule for violation in run(seed, 1.0, (fault,)).violations} for seed in _SEEDS)


@pytest.mark.parametrize("fault", ["power_loss", "lost_commits", "full_disk"])
def test_lost_files_without_a_defect_are_clean(fault: str) -> None:
    assert [run(seed, 1.0, (fault,)).violations for seed in range(3)] == [()] * 3
