"""A job that stands still while another one takes over, and then goes on: no promise is broken, and defects planted for
it are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sharegroup.core.operators.share_partition.partition_configs import PartitionConfig, PartitionConfigs
from sharegroup.job.lead.job_lead import JobLead
from sharegroup.storage.writing.fence import WriterFence
from tests.simulation import population
from tests.simulation.job import job_host
from tests.simulation.run import run

pytestmark = pytest.mark.thorough

Plant = Callable[[pytest.MonkeyPatch], None]


def a_change_is_taken_whenever_it_comes(patch: pytest.MonkeyPatch) -> None:
    """Share-partitions do not look at when a config was altered."""
    set_config = PartitionConfigs.set

    def without_order(configs: PartitionConfigs, partition: int, config: PartitionConfig, altered_ms: int) -> None:
        configs._shards_altered_ms = 0
        configs._altered_ms.pop(partition, None)
        set_config(configs, partition, config, altered_ms)

    patch.setattr(PartitionConfigs, "set", without_order)


def nobody_is_fenced(patch: pytest.MonkeyPatch) -> None:
    """A job goes on whoever has written to its tables, and does not look who leads."""
    patch.setattr(WriterFence, "_is_foreign", lambda *_: False)
    patch.setattr(JobLead, "check", lambda _: None)


#: By name: the defect, and the rule by which it must be found.
DEFECTS: dict[str, tuple[Plant, str]] = {
    plant.__name__: (plant, rule)
    for plant, rule in (
        (a_change_is_taken_whenever_it_comes, "a config that was answered is in force"),
        (nobody_is_fenced, "one job"),
    )
}
#: A seed that shows them all.
_SEED = 1
_FAULTS, _HOURS = ("paused_job", "alter_configs", "slow_members"), 0.6


@pytest.fixture(autouse=True)
def _long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many and long ones, with many changes meanwhile, so that short runs show much."""
    monkeypatch.setattr(job_host, "_PAUSED_EVERY_MS", 60_000)
    monkeypatch.setattr(job_host, "_PAUSES_MS", (300_000,))
    monkeypatch.setattr(population, "_ADMIN_EVERY_MS", 20_000)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_of_paused_jobs_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, rule = DEFECTS[name]
    plant(monkeypatch)
    assert rule in {violation.rule for violation in run(_SEED, _HOURS, _FAULTS).violations}


def test_jobs_that_go_on_after_a_pause_break_no_promise() -> None:
    assert run(_SEED, _HOURS, _FAULTS).violations == ()
