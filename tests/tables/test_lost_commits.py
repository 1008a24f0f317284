"""Tables that have lost different numbers of commits: a start brings them all to the same batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sharegroup.core.operators.output import Output
from sharegroup.job.clock.handover import HandoverChange
from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.commit.query_run import QueryRun
from sharegroup.job.lead.stale_checkpoint import Checkpoint, StaleCheckpointError
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES, SHARE_PARTITION_TABLES, TableSpec
from sharegroup.storage.writing.delta_table import DeltaTableWriter
from tests.tables import group_batches
from tests.tables.group_batches import group, partition
from tests.tables.job_clocks import job_clock
from tests.tables.job_tables import RecordingProducer, batch, rows, start
from tests.tables.torn_tables import lose

STATE, LOG = "share_group_state", "delivery_log"
GROUPS, PARTITIONS = "share_groups", "share_partitions"
_BATCHES = 5

#: How many commits the first table has lost, and another table.
LOST = pytest.mark.parametrize(
    ("of_first", "of_other"), [(0, 0), (0, 1), (0, 3), (1, 0), (3, 0), (1, 3), (3, 1), (2, 2)]
)


def restarted(root: Path, specs: tuple[TableSpec, ...]) -> CommitSteps:
    """Return a start that follows another start, which died right after it was done."""
    start(root, "query-2", specs)
    return start(root, "query-2", specs)[0]


@LOST
def test_delivery_log_has_the_batches_of_the_state(tmp_path: Path, of_first: int, of_other: int) -> None:
    steps, _ = start(tmp_path)
    for batch_id in range(_BATCHES):
        steps.commit(batch(batch_id, offset=batch_id))
    lose(tmp_path / STATE, of_first)
    lose(tmp_path / LOG, of_other)
    left = _BATCHES - of_first

    steps = restarted(tmp_path, SHARE_PARTITION_TABLES)
    wanted = [(each,) for each in range(left)]
    assert (rows(tmp_path, STATE, "batch_id"), rows(tmp_path, LOG, "batch_id")) == (wanted, wanted)
    assert steps.positions == {0: left}
    steps.commit(batch(0, offset=left, position=left + 1))
    assert rows(tmp_path, LOG, "first_offset") == [(each,) for each in range(left + 1)]


@LOST
def test_tables_of_current_state_have_the_batches_of_the_first(tmp_path: Path, of_first: int, of_other: int) -> None:
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    for batch_id in range(_BATCHES):
        made = group_batches.batch(batch_id, [partition(batch_id), partition(9, batch_id)], [group(f"g{batch_id}")])
        steps.commit(made)
    lose(tmp_path / GROUPS, of_first)
    lose(tmp_path / PARTITIONS, of_other)
    left = _BATCHES - of_first

    restarted(tmp_path, GROUP_COORDINATOR_TABLES)
    assert rows(tmp_path, GROUPS, "group_id") == [(f"g{each}",) for each in range(left)]
    found = rows(tmp_path, PARTITIONS, "partition", "state_epoch")
    assert found == [*((each, 1) for each in range(left)), (9, left - 1)]


def test_a_table_that_has_lost_nothing_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The last batches had no rows for these tables."""
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    steps.commit(group_batches.batch(0, [partition(0)], [group("g0")]))
    for batch_id in range(1, 4):
        steps.commit(group_batches.batch(batch_id, (), [group(f"g{batch_id}")]))
    start(tmp_path, "query-2", GROUP_COORDINATOR_TABLES)
    assert caplog.records == []


def test_a_new_querys_commits_are_rolled_back_with_its_lead_commit(tmp_path: Path) -> None:
    """The state has lost all commits of a query and its lead commit; its batch ids do not concern the query before."""
    steps, _ = start(tmp_path)
    steps.commit(batch(0))
    steps, _ = start(tmp_path, "query-2")
    steps.commit(batch(0, offset=1))
    lose(tmp_path / STATE, 2)
    start(tmp_path, "query-3")
    assert rows(tmp_path, LOG, "first_offset") == [(0,)]


def lead(root: Path, checkpoint: Checkpoint) -> None:
    steps, _ = start_unled(root)
    QueryRun("q", steps, _NoHandOver(), lambda: None, lambda: None, 100, job_clock()).become_leader(
        1 + max(writer.leader_epoch for writer in steps.writers), checkpoint, lambda query_id: 0
    )


def start_unled(root: Path) -> tuple[CommitSteps, RecordingProducer]:
    producer = RecordingProducer()
    return CommitSteps([DeltaTableWriter(str(root), spec) for spec in SHARE_PARTITION_TABLES], producer), producer


class _NoHandOver:
    def write(self, change: HandoverChange) -> None:
        """Discard the change."""


def _ahead_by_mark(root: Path) -> Checkpoint:
    lose(root / STATE, 2)  # the lead commit of the last start, and a batch
    lose(root / LOG, 2)
    return Checkpoint("/c", "query-1", 3, committed={STATE: 2})


def _ahead_without_mark(root: Path) -> Checkpoint:
    lose(root / STATE, 2)
    return Checkpoint("/c", "query-1", 3)


@pytest.mark.parametrize("plant", [_ahead_by_mark, _ahead_without_mark])
def test_a_checkpoint_that_is_ahead_of_its_tables_is_rejected(
    tmp_path: Path, plant: Callable[[Path], Checkpoint]
) -> None:
    """Newer batches of the checkpoint may have had no effects, so only the recorded commits count."""
    steps, _ = start(tmp_path)
    for batch_id in range(3):
        steps.commit(batch(batch_id, offset=batch_id))
    whole = Checkpoint("/c", "query-1", 3, committed=steps.newest_batches())
    lead(tmp_path, whole)
    checkpoint = plant(tmp_path)
    for _ in range(2):  # a rejected start does not change the outcome
        with pytest.raises(StaleCheckpointError, match=r"lost commits.*/c .*: remove that checkpoint"):
            lead(tmp_path, checkpoint)


def test_a_mark_has_the_newest_batches_of_the_tables(tmp_path: Path) -> None:
    marked: list[Any] = []
    steps, _ = start_unled(tmp_path)
    run = QueryRun(
        "q", steps, _NoHandOver(), lambda: None, lambda: None, 100, job_clock(), mark_checkpoint=marked.append
    )
    run.become_leader(1, None, lambda query_id: 0)
    steps.query_id = "query-1"
    run.finish_batch(0, [Output("k", 1, positions={0: 5}).encode()])
    run.finish_batch(1, [Output("k", 1).encode()])
    assert marked == [{STATE: 0}]
