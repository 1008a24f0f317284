"""Rejected records and records archived at the limit, read from real tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sharegroup.security.acl import Acl, AclEntry
from sharegroup.storage import TableUnavailableError
from sharegroup.storage.reading.dead_ends import LIMIT_CAUSES, REJECTED_CAUSES, hours_since, read_dead_ends
from sharegroup.testing.samples.sample_history import GROUP_ID, TOPIC, write_sample_history
from tests.unit.ui.seen import browser, group, parts

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
    assert found.by_hour() == {hour: (found.ranges, *records)}
    assert found.group_ids == {GROUP_ID}


def test_only_the_requested_number_and_age_is_returned(tables: str) -> None:
    found = read_dead_ends(tables, END - timedelta(hours=1), most=1)
    assert len(found.newest) == 1
    assert found.ranges > 1
    assert read_dead_ends(tables, END + timedelta(minutes=1)).ranges == 0
    assert read_dead_ends(tables, END - timedelta(hours=1), "another").ranges == 0


def test_dead_ends_of_a_topic_are_left_out_with_their_counts(tables: str) -> None:
    found = read_dead_ends(tables, END - timedelta(hours=1))
    assert found.for_topics(lambda topic: topic == TOPIC) == found
    nothing = found.for_topics(lambda topic: topic != TOPIC)
    assert (nothing.newest, nothing.ranges, nothing.by_hour()) == ((), 0, {})


@pytest.mark.parametrize("may_describe_topic", [False, True])
def test_page_of_dead_ends_needs_the_topics_rights(tmp_path: Path, may_describe_topic: bool) -> None:
    """The rows contain topics, offsets and members, which a user who may only describe the group must not see."""
    write_sample_history(str(tmp_path), minutes=6)
    entries = [{"resource": "group", "name": GROUP_ID}, *([{"resource": "topic", "name": TOPIC}] * may_describe_topic)]
    allowed = {"principal": "User:ANONYMOUS", "operations": ["Describe"]}
    acl = Acl([AclEntry.model_validate(entry | allowed) for entry in entries])
    page = browser(parts([group(GROUP_ID)], acl=acl, tables_path=str(tmp_path)))
    for path in (f"/dead-ends?group={GROUP_ID}", "/dead-ends"):
        shown = page.get(path)
        assert shown.status_code == 200
        assert (f"{TOPIC}-0" in shown.text) == may_describe_topic
        assert ("maximum 0 records" not in shown.text) == may_describe_topic


def test_dead_ends_of_a_deleted_group_are_not_for_everybody(tmp_path: Path) -> None:
    write_sample_history(str(tmp_path), minutes=6)
    allowed = {"principal": "User:ANONYMOUS", "operations": ["Describe"]}
    entries = [{"resource": "group", "name": "there"}, {"resource": "topic", "name": "*"}]
    acl = Acl([AclEntry.model_validate(entry | allowed) for entry in entries])
    page = browser(parts([group("there")], acl=acl, tables_path=str(tmp_path)))
    assert page.get("/dead-ends").status_code == 403


def test_missing_tables_are_reported(tmp_path: Path) -> None:
    with pytest.raises(TableUnavailableError):
        read_dead_ends(str(tmp_path), END)


def test_hours() -> None:
    since = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
    assert [hour.hour for hour in hours_since(since, since + timedelta(hours=2, minutes=1))] == [10, 11, 12]
