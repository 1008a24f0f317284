"""Recovery from the tables, also from incomplete commits, and the dump for the state store."""

import json

import pytest

from sharegroup.core.group_coordinator import (
    GroupState,
    ShareGroup,
    ShareGroupMemberRecord,
    ShareGroupRecord,
    SharePartitionRecord,
    SharePartitionStatus,
    TopicPartitions,
)
from sharegroup.core.group_coordinator.records import TableRecord
from sharegroup.protocol.rows.share_group_requests import TopicMetadata
from tests.unit.core.group_coordinator.driver import CONFIG, GROUP, ORDERS, Driver, request

LATER_MS = 9_000_000


def stable() -> Driver:
    driver = Driver()
    driver.join("a")
    driver.join("b")
    driver.initialize_all()
    driver.beat("a")
    driver.beat("b")
    return driver


def reload(driver: Driver, rows: list[TableRecord]) -> Driver:
    driver.group = ShareGroup.load(GROUP, rows, LATER_MS, CONFIG)
    driver.now_ms = LATER_MS
    return driver


def test_all_rows_give_the_same_group_with_fresh_sessions() -> None:
    driver = stable()
    before = driver.group.metadata
    reload(driver, driver.rows)
    after = driver.group.metadata
    assert after.session_deadlines == {"a": LATER_MS + 45_000, "b": LATER_MS + 45_000}
    assert (after.members, after.targets, after.share_partitions) == (
        before.members,
        before.targets,
        before.share_partitions,
    )
    assert driver.epochs() == (4, 4, {"a": 4, "b": 4})


def test_members_go_on_after_a_reload_as_if_nothing_had_been() -> None:
    driver = stable()
    reload(driver, driver.rows)
    assert (driver.beat("a").error_code, driver.last.records) == (0, ())


def test_reloaded_member_still_gets_its_new_assignment() -> None:
    driver = Driver()
    driver.join("a")
    driver.initialize_all()
    reload(driver, driver.rows)
    assert driver.beat("a").assignment == {"orders": ["id-orders", [0, 1]]}


def test_no_rows_give_an_empty_group() -> None:
    group = ShareGroup.load(GROUP, [], LATER_MS, CONFIG)
    assert not group.metadata.exists
    assert group.next_deadline_ms is None


def test_recovery_keeps_empty_and_dead_groups() -> None:
    driver = stable()
    driver.leave("a")
    driver.leave("b")
    assert reload(driver, driver.rows).group.metadata.group_state is GroupState.EMPTY
    assert driver.epochs() == (6, 6, {})
    dead = [*driver.rows, ShareGroupRecord(GROUP, 7, 7, GroupState.DEAD)]
    assert reload(driver, dead).group.metadata.group_state is GroupState.DEAD
    assert driver.epochs() == (7, 7, {})


@pytest.mark.parametrize("lost", [ShareGroupRecord, ShareGroupMemberRecord, SharePartitionRecord])
def test_tables_that_were_not_committed_together_give_a_group_that_goes_on(lost: type[TableRecord]) -> None:
    """The tables are complete up to the assignment. Of the last commit, one table's rows are missing."""
    driver = stable()
    complete = len(driver.rows)
    driver.send(request("a", 4, ["orders"], {"orders": TopicMetadata("id-orders", 3)}))
    driver.initialize_all()
    driver.beat("a")
    kept = driver.rows[:complete] + [row for row in driver.rows[complete:] if not isinstance(row, lost)]
    highest = max(row.member_epoch for row in kept if isinstance(row, ShareGroupMemberRecord))
    reload(driver, kept)
    assert driver.group.metadata.group_epoch >= highest, "epochs never go back"
    driver.send(request("a", 0, ["orders"], {"orders": TopicMetadata("id-orders", 3)}))
    driver.initialize_all()
    assert driver.beat("a").error_code == 0
    driver.send(request("b", 0, ["orders"], ORDERS))
    for member in driver.group.metadata.members.values():
        assert member.assignment == (("orders", "id-orders", (0, 1, 2)),)
        assert member.member_epoch == driver.group.metadata.group_epoch


def test_a_repaired_group_writes_its_new_epoch_with_the_first_heartbeat() -> None:
    driver = stable()
    reload(driver, [row for row in driver.rows if not isinstance(row, ShareGroupRecord)])
    assert driver.epochs() == (5, 0, {"a": 4, "b": 4})
    driver.beat("a")
    assert ShareGroupRecord(GROUP, 5, 5, GroupState.STABLE) in driver.last.records
    assert driver.epochs() == (5, 5, {"a": 5, "b": 4})


def member(epoch: int, *partitions: int) -> ShareGroupMemberRecord:
    assignment = (TopicPartitions("orders", "id-orders", partitions),)
    return ShareGroupMemberRecord(GROUP, "a", epoch, None, "client", "/10.0.0.1", ("orders",), assignment)


@pytest.mark.parametrize(
    ("group", "of_member", "loaded"),
    [
        (ShareGroupRecord(GROUP, 4, 4, GroupState.STABLE), member(4, 0), (4, 4)),
        (ShareGroupRecord(GROUP, 4, 4, GroupState.STABLE), member(3), (4, 4)),  # behind; its next heartbeat updates it
        (ShareGroupRecord(GROUP, 4, 4, GroupState.STABLE), member(4), (5, 4)),  # current epoch, but another assignment
        (ShareGroupRecord(GROUP, 4, 4, GroupState.STABLE), member(6, 0), (7, 4)),  # ahead of its group
        (ShareGroupRecord(GROUP, 4, 4, GroupState.EMPTY), member(3, 0), (5, 4)),  # in a group without members
        (ShareGroupRecord(GROUP, 1, 1, GroupState.STABLE), member(1, 0), (3, 1)),  # its partition is ahead (epoch 2)
    ],
)
def test_rows_that_contradict_each_other_start_a_new_epoch(
    group: ShareGroupRecord, of_member: ShareGroupMemberRecord, loaded: tuple[int, int]
) -> None:
    initialized = SharePartitionRecord(GROUP, "orders", "id-orders", 0, SharePartitionStatus.INITIALIZED, 2, 7)
    metadata = ShareGroup.load(GROUP, [group, of_member, initialized], LATER_MS, CONFIG).metadata
    assert (metadata.group_epoch, metadata.assignment_epoch) == loaded
    assert metadata.group_state is GroupState.STABLE
    assert metadata.targets == {"a": (("orders", "id-orders", (0,)),)}


def test_a_dump_holds_ranges_and_each_assignment_once() -> None:
    driver = Driver()
    metadata = {"orders": TopicMetadata("id-orders", 1_000)}
    for member in "abc":
        driver.join(member, ["orders"], metadata)
    driver.initialize_all()
    for member in "abc":
        driver.beat(member)
    content = driver.group.dump()
    assert content["assignments"] == [[["orders", "id-orders", [[0, 999]]]]]
    assert content["share_partitions"] == {"id-orders": ["orders", [[0, 999, "initialized", 2, -1, "latest"]]]}
    assert len(json.dumps(content)) < 750
    assert driver.through_json().metadata == driver.group.metadata


def test_dump_of_another_format_is_rejected() -> None:
    content = stable().group.dump()
    told = (
        "group orders-readers: the checkpoint of the query group_coordinator has state of format 99, but this job "
        "reads format 1: remove that checkpoint, and the job recovers from the tables"
    )
    with pytest.raises(ValueError, match=told):
        ShareGroup.restore(GROUP, {**content, "version": 99})
