"""What the page shows, from real tables; the brokers' responses are given."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sharegroup.config import CellsConfig, Config, JobConfig
from sharegroup.kafka_clients.admin import LogOffsets
from sharegroup.testing.samples.sample_history import GROUP_ID, MEMBERS, TOPIC, write_sample_history
from sharegroup.types import RecordState
from sharegroup.ui.data.logs import LogsUnavailableError, Place
from sharegroup.ui.data.snapshots import INTERVAL_S, Snapshots, wait_s
from tests.unit.ui.seen import NOW_MS, SeenLogs


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("tables"))
    write_sample_history(path, datetime(2026, 11, 20, 12, 30, tzinfo=UTC), minutes=8)
    return path


def test_a_snapshot_has_the_content_of_tables_and_logs(tables: str) -> None:
    snapshots = Snapshots(Config(job=JobConfig(**{"tables.path": tables})), SeenLogs(), lambda: NOW_MS)
    snapshot = snapshots.take_snapshot()
    assert (snapshot.problems, list(snapshot.groups)) == ((), [GROUP_ID])
    group = snapshot.groups[GROUP_ID]
    assert [member.member_id for member in group.description.members] == list(MEMBERS)
    assert [(row.topic, row.partition) for row in group.partitions] == [(TOPIC, 0), (TOPIC, 1)]
    for row in group.partitions:
        terminal = [b for b in row.batches if b.delivery_state.is_terminal]
        complete = sum(b.last_offset - b.first_offset + 1 for b in terminal)
        assert row.start_offset is not None
        assert row.lag == 20_000 - row.start_offset - complete
        assert row.oldest_ms == NOW_MS - 61_000
    assert group.acquired == sum(row.records(RecordState.ACQUIRED) for row in group.partitions)
    assert snapshots.take_snapshot().groups == snapshot.groups
    assert snapshots.history.trend(GROUP_ID).per_second is None  # both snapshots at the same moment


def test_unreadable_tables_are_reported(tmp_path: Path) -> None:
    snapshots = Snapshots(Config(job=JobConfig(**{"tables.path": str(tmp_path)})), SeenLogs(), lambda: NOW_MS)
    assert snapshots.take_snapshot().groups == {}
    assert snapshots.newest.problems == (f"table share_groups does not exist: no job has run on {tmp_path}",)


@pytest.mark.parametrize("cell", ["east", "west"])
def test_a_group_is_read_from_its_cell(tables: str, tmp_path: Path, cell: str) -> None:
    for name in ("east", "west"):  # one of them is the group's cell before a move
        shutil.copytree(tables, tmp_path / name)
    cells = CellsConfig(**{"cell.names": ["east", "west"], "group.cells": {GROUP_ID: cell}})
    snapshot = Snapshots(
        Config(job=JobConfig(**{"tables.path": str(tmp_path)}), cells=cells), SeenLogs(), lambda: NOW_MS
    ).take_snapshot()
    assert snapshot.problems == ()
    assert {group_id: group.cell for group_id, group in snapshot.groups.items()} == {GROUP_ID: cell}


def test_one_cell_that_cannot_be_read_leaves_the_others(tables: str, tmp_path: Path) -> None:
    shutil.copytree(tables, tmp_path / "east")
    cells = CellsConfig(**{"cell.names": ["east", "west"], "group.cells": {GROUP_ID: "east"}})
    snapshot = Snapshots(
        Config(job=JobConfig(**{"tables.path": str(tmp_path)}), cells=cells), SeenLogs(), lambda: NOW_MS
    ).take_snapshot()
    (problem,) = snapshot.problems
    assert problem.startswith("cell west: table share_groups does not exist")
    assert list(snapshot.groups) == [GROUP_ID]


class LogsAway(SeenLogs):
    """Brokers that do not respond while `are_away`."""

    are_away = True

    def offsets(self, places: Collection[Place]) -> Mapping[Place, LogOffsets]:
        if self.are_away:
            raise LogsUnavailableError("the brokers are not available: NoBrokersAvailable")
        return super().offsets(places)


def test_unavailable_brokers_are_reported_and_retried(tables: str) -> None:
    logs = LogsAway()
    snapshots = Snapshots(Config(job=JobConfig(**{"tables.path": tables})), logs, lambda: NOW_MS)
    snapshot = snapshots.take_snapshot()
    assert snapshot.problems == ("the brokers are not available: NoBrokersAvailable",)
    group = snapshot.groups[GROUP_ID]
    assert (group.lag, group.oldest_ms) == (None, None)
    assert all(row.start_offset is not None and row.batches for row in group.partitions)
    logs.are_away = False
    assert snapshots.take_snapshot().groups[GROUP_ID].lag is not None
    assert snapshots.newest.problems == ()


def test_snapshots_use_at_most_a_tenth_of_a_core() -> None:
    assert wait_s(0.1) == INTERVAL_S
    cpu_s = 2.0
    assert cpu_s / (cpu_s + wait_s(cpu_s)) == pytest.approx(0.1)
