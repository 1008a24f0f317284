"""Groups that move from one cell's tables to another's, when the move dies at any step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sharegroup.config import Config, parse_config
from sharegroup.job.cells.group_move import CellTables, GroupMoveError, check_movable, move_group
from sharegroup.job.cells.misplaced_groups import MisplacedGroupsError, reject_misplaced_groups
from sharegroup.job.lead.stale_checkpoint import Checkpoint, StaleCheckpointError, reject_stale_checkpoint
from sharegroup.storage import read_group_configs, read_groups, read_share_group_offsets
from sharegroup.storage.reading.state_table import read_states
from sharegroup.storage.rows import open_table
from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_PARTITION_TABLES
from tests.params import thorough
from tests.tables.job_tables import Died, RecordingProducer, start
from tests.tables.test_group_administration import (
    DELETE_GROUP,
    EARLIEST,
    LOCK,
    alter_configs,
    fetch,
    heartbeat,
    join,
    used,
)
from tests.tables.two_queries import GROUP, TwoQueries

STEPS = range(1, 5)


def config(root: Path, cell: str) -> Config:
    """Return the file's config with the group in this cell."""
    section = {"cell.names": "a,b", "group.cells": {GROUP: cell}}
    groups = {GROUP: {"share.auto.offset.reset": "earliest"}}
    return parse_config({"cells": section, "job": {"tables.path": str(root)}, "groups": groups}, "test")


def tables(root: Path, cell: str) -> CellTables:
    return CellTables(str(root / cell), ("g", "p", "r"), lambda topic: RecordingProducer())


def move(root: Path, source: str, target: str, dies_after: int = 0) -> bool:
    """Run a move; return whether there was something to move. Raises Died."""

    def after(step: int) -> None:
        if step == dies_after:
            raise Died

    of_source, of_target = tables(root, source), tables(root, target)
    if not check_movable(of_source, of_target, GROUP, lambda _: 0):
        return False
    move_group(of_source, of_target, GROUP, after)
    return True


def left(root: Path) -> TwoQueries:
    """Return the job of cell a after it has read all requests of the member that left."""
    job = used(root / "a")
    job.groups(alter_configs({LOCK: "20000"}))
    job.partitions()
    job.groups()
    return job


def states(root: Path, cell: str) -> dict[str, object]:
    found = read_states(open_table(str(root / cell), SHARE_GROUP_STATE))
    return {f"{key.topic_id}-{key.partition}": state.state_batches for key, state in found.items()}


@pytest.mark.parametrize("dies_after", [0, 2, *thorough(1, 3, 4)])
def test_a_move_that_dies_is_completed_and_no_job_starts_in_between(tmp_path: Path, dies_after: int) -> None:
    left(tmp_path)
    before, offsets = states(tmp_path, "a"), read_share_group_offsets(str(tmp_path / "a"), GROUP)
    assert len(before) == 2
    if dies_after:
        with pytest.raises(Died):
            move(tmp_path, "a", "b", dies_after)
        if dies_after < 4:
            for cell in ("a", "b"):
                with pytest.raises(MisplacedGroupsError, match=f"cell a have groups .*: {GROUP}. Move"):
                    reject_misplaced_groups(config(tmp_path, "b").for_cell(cell))
    assert move(tmp_path, "a", "b") is (dies_after < 4)
    for cell in ("a", "b"):
        reject_misplaced_groups(config(tmp_path, "b").for_cell(cell))

    assert (states(tmp_path, "a"), states(tmp_path, "b")) == ({}, before)
    assert [[row.group_id for row in read_groups(str(tmp_path / cell))] for cell in ("a", "b")] == [[], [GROUP]]
    assert [read_group_configs(str(tmp_path / cell)) for cell in ("a", "b")] == [{}, {GROUP: {LOCK: "20000"}}]
    moved = read_share_group_offsets(str(tmp_path / "b"), GROUP)
    assert [row._replace(leader_epoch=0) for row in moved] == [row._replace(leader_epoch=0) for row in offsets]
    job = TwoQueries(tmp_path / "b", EARLIEST)
    assert join_again(job) == [[[0, 9, 2]], [[0, 9, 2]]]  # the second delivery of each


def join_again(job: TwoQueries) -> list[object]:
    job.groups()
    job.groups(heartbeat(0))
    job.partitions()
    return [response["acquired"] for response in job.partitions(fetch(0), fetch(1))]


def test_there_and_back_and_there_again(tmp_path: Path) -> None:
    left(tmp_path)
    before = states(tmp_path, "a")
    for source, target in (("a", "b"), ("b", "a"), ("a", "b")):
        assert move(tmp_path, source, target)
    assert (states(tmp_path, "a"), states(tmp_path, "b")) == ({}, before)


@pytest.mark.parametrize("dies_after", [2, *thorough(*(step for step in STEPS if step != 2))])
def test_a_move_that_is_given_up_goes_back(tmp_path: Path, dies_after: int) -> None:
    left(tmp_path)
    before = states(tmp_path, "a")
    with pytest.raises(Died):
        move(tmp_path, "a", "b", dies_after)
    if dies_after == 1:  # the group is not visible there yet
        reject_misplaced_groups(config(tmp_path, "a").for_cell("a"))
    else:
        with pytest.raises(MisplacedGroupsError):
            reject_misplaced_groups(config(tmp_path, "a").for_cell("a"))
        assert move(tmp_path, "b", "a")
    assert states(tmp_path, "a") == before
    reject_misplaced_groups(config(tmp_path, "a").for_cell("a"))


def test_the_previous_jobs_are_fenced_and_their_checkpoints_stale(tmp_path: Path) -> None:
    left(tmp_path)
    move(tmp_path, "a", "b")
    steps, _ = start(tmp_path / "a", "query-1", SHARE_PARTITION_TABLES)
    with pytest.raises(StaleCheckpointError, match="remove that checkpoint"):
        reject_stale_checkpoint(Checkpoint("/c", "query-1", 9, None), steps.last_info, 3, lambda query_id: 1)


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (lambda job: join(job), "has 1 members: stop them"),
        (lambda job: job.groups(DELETE_GROUP), "is being initialized or deleted"),
    ],
)
def test_a_group_that_is_not_at_rest_stays(tmp_path: Path, act: Callable[[TwoQueries], object], problem: str) -> None:
    job = left(tmp_path)
    act(job)
    with pytest.raises(GroupMoveError, match=problem):
        move(tmp_path, "a", "b")


def test_unread_requests_prevent_the_move(tmp_path: Path) -> None:
    left(tmp_path)
    with pytest.raises(GroupMoveError, match="7 requests for group g are unread"):
        check_movable(tables(tmp_path, "a"), tables(tmp_path, "b"), GROUP, lambda _: 7)


def test_an_unknown_group_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GroupMoveError, match="group g does not exist"):
        move(tmp_path, "a", "b")


def test_a_group_of_the_job_without_cells_keeps_its_cell_from_starting(tmp_path: Path) -> None:
    used(tmp_path)
    reject_misplaced_groups(config(tmp_path, "b").for_cell("a"))
    with pytest.raises(MisplacedGroupsError, match="the job without cells have groups"):
        reject_misplaced_groups(config(tmp_path, "b").for_cell("b"))
