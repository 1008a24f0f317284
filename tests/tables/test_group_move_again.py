"""A move that died after its first step and was given up leaves states in the target; the group moves there later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tables.job_tables import Died
from tests.tables.test_group_administration import (
    ALTER_OFFSETS,
    DELETE_GROUP,
    EARLIEST,
    LOCK,
    alter_configs,
    heartbeat,
    join,
)
from tests.tables.test_group_move import join_again, left, move
from tests.tables.two_queries import TwoQueries


def test_a_group_moves_to_where_an_earlier_move_was_given_up(tmp_path: Path) -> None:
    job = left(tmp_path)
    job.groups(ALTER_OFFSETS)  # offset 7 of partition 0, by a second snapshot; any second snapshot will do
    job.partitions()
    job.groups()
    with pytest.raises(Died):
        move(tmp_path, "a", "b", dies_after=1)  # given up: the configuration names cell a again

    # later, the group is deleted and created again in cell a
    job.lose_checkpoint()
    job.groups(DELETE_GROUP)
    job.partitions()
    job.groups()
    job.lose_checkpoint()  # or an hour passes: the epochs of the deleted group are forgotten
    assert join(job) == [[[0, 9, 1]], [[0, 9, 1]]]
    job.groups(heartbeat(-1))
    job.groups(alter_configs({LOCK: "25000"}))
    job.partitions()
    job.groups()

    assert move(tmp_path, "a", "b")
    assert join_again(TwoQueries(tmp_path / "b", EARLIEST)) == [[[0, 9, 2]], [[0, 9, 2]]]
