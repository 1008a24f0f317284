"""Rejected and limit-archived records, from real tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sharegroup.tables import TableUnavailableError
from sharegroup.tables.dead_ends import LIMIT_CAUSES, REJECTED_CAUSES, hours_since, read_dead_ends
from sharegroup.testkit.sample_history import GROUP_ID, write_sample_history

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
