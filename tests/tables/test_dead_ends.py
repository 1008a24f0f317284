"""Rejected and limit-archived records, from real tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sharegroup.config import Config, JobConfig
from sharegroup.tables import TableUnavailableError
from sharegroup.tables.dead_ends import LIMIT_CAUSES, REJECTED_CAUSES, hours_since, read_dead_ends
from sharegroup.testkit.sample_history import GROUP_ID, MEMBERS, TOPIC, write_sample_history
from sharegroup.types import RecordState
from sharegroup.ui.looks import Looks
from tests.unit.ui.seen import NOW_MS, SeenLogs

END = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("tables"))
    write_sample_history(path, END, minutes=8)
    return path


def test_dead_ends_are_listed_and_counted(tables: str) -> None:
    found = read_dead_ends(tables, END - timedelta(hours=1))
    assert {row.cause for row in found.newest} == {"reject", "release"}
    assert [row.time for row in found.newest] == sorted((row.time for row in found.newest), reverse=True)
    assert found.ranges == len(found.newest)
    rejected = read_dead_ends(tables, END - timedelta(hours=1), GROUP_ID, REJECTED_CAUSES)
    limited = read_dead_ends(tables, END - timedelta(hours=1), GROUP_ID, LIMIT_CAUSES)
    assert rejected.ranges + limited.ranges == found.ranges
    hour = END.replace(minute=0)
    records = [sum(row.last_offset - row.first_offset + 1 for row in part.newest) for part in (rejected, limited)]
    assert found.by_hour == {hour: tuple(records)}


def test_only_as_many_and_as_old_as_asked_for(tables: str) -> None:
    found = read_dead_ends(tables, END - timedelta(hours=1), most=1)
    assert len(found.newest) == 1
    assert found.ranges > 1
    assert read_dead_ends(tables, END + timedelta(minutes=1)).ranges == 0
    assert read_dead_ends(tables, END - timedelta(hours=1), "another").ranges == 0


def test_tables_that_are_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(TableUnavailableError):
        read_dead_ends(str(tmp_path), END)


def test_hours() -> None:
    since = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
    assert [hour.hour for hour in hours_since(since, since + timedelta(hours=2, minutes=1))] == [10, 11, 12]


def test_a_look_has_what_the_tables_and_the_logs_say(tables: str) -> None:
    looks = Looks(Config(job=JobConfig(**{"tables.path": tables})), SeenLogs(), lambda: NOW_MS)
    look = looks.look()
    assert (look.problems, list(look.groups)) == ((), [GROUP_ID])
    group = look.groups[GROUP_ID]
    assert [member.member_id for member in group.description.members] == list(MEMBERS)
    assert [(row.topic, row.partition) for row in group.partitions] == [(TOPIC, 0), (TOPIC, 1)]
    for row in group.partitions:
        terminal = [b for b in row.batches if b.delivery_state.is_terminal]
        complete = sum(b.last_offset - b.first_offset + 1 for b in terminal)
        assert row.start_offset is not None
        assert row.lag == 20_000 - row.start_offset - complete
        assert row.oldest_ms == NOW_MS - 61_000
    assert group.acquired == sum(row.records(RecordState.ACQUIRED) for row in group.partitions)
    assert looks.look().groups == look.groups
    assert looks.history.trend(GROUP_ID).per_second is None  # both looks at one moment


def test_what_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    looks = Looks(Config(job=JobConfig(**{"tables.path": str(tmp_path)})), SeenLogs(), lambda: NOW_MS)
    assert looks.look().groups == {}
    assert looks.newest.problems == (f"table share_groups is not there: no job has run on {tmp_path}",)
