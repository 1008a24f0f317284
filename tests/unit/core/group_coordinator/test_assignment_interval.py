"""When the assignor runs: immediately or after share.assignment.interval.ms, and responses until then (KIP-1263)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharegroup.config import parse_config
from sharegroup.core.group_coordinator import ReleaseMember, ShareGroup, ShareGroupRecord, TopicPartitions
from sharegroup.core.group_coordinator.records import TargetAssignmentMetadataRecord
from sharegroup.protocol.rows.share_group_requests import AlterConfigsRequest, TopicMetadata
from tests.unit.core.group_coordinator.driver import CONFIG, GROUP, ORDERS, ORDERS_AND_BILLS, Driver, request

INTERVAL_MS = 1_000
SIMPLE = replace(CONFIG, max_size=100, assignor="simple", assignment_interval_ms=INTERVAL_MS)
FOUR = {"orders": TopicMetadata("id-orders", 4)}
ALL_FOUR = {"orders": ["id-orders", [0, 1, 2, 3]]}


def reading(*members: str) -> Driver:
    """Return a group whose members read four partitions, just after a run of the assignor."""
    driver = Driver(SIMPLE)
    for member in members:
        driver.join(member, metadata=FOUR)
    driver.initialize_all()
    for member in members:
        driver.beat(member)
    return driver


def runs(driver: Driver) -> int:
    return sum(isinstance(record, TargetAssignmentMetadataRecord) for record in driver.records)


def partitions_of(driver: Driver, member: str) -> tuple[int, ...]:
    (item,) = driver.group.metadata.members[member].assignment
    return item.partitions


def tick(driver: Driver) -> None:
    """Do what the operator does at the deadline."""
    deadline_ms = driver.group.assignment_deadline_ms(driver.config)
    assert deadline_ms is not None
    driver.now_ms = deadline_ms
    driver.expire()


def test_a_lone_consumer_waits_for_nothing() -> None:
    """A run that had nothing to assign starts no interval."""
    driver = Driver(SIMPLE)
    driver.join("a", metadata=FOUR)
    driver.now_ms += 1
    driver.initialize_all()
    assert driver.beat("a").assignment == ALL_FOUR
    assert driver.group.assignment_deadline_ms(SIMPLE) is None


def test_fifty_joins_are_one_run() -> None:
    driver = reading("a")
    before = runs(driver)
    for number in range(50):
        driver.join(f"m{number}", metadata=FOUR)
    assert runs(driver) == before
    tick(driver)
    assert runs(driver) == before + 1
    told = [driver.beat(f"m{number}").assignment for number in range(50)]
    assert all(assignment and assignment["orders"][1] for assignment in told)


def test_member_that_joins_in_the_interval_waits_for_the_next_run() -> None:
    driver = reading("a")
    driver.now_ms += 400
    joined = driver.join("b", metadata=FOUR)
    assert (joined.member_epoch, joined.assignment, joined.heartbeat_interval_ms) == (3, {}, INTERVAL_MS - 400)
    assert driver.group.awaits_assignment("b")
    assert not driver.group.awaits_assignment("a")
    assert driver.epochs() == (4, 3, {"a": 3, "b": 3})
    stays = driver.beat("a")
    assert (stays.assignment, stays.heartbeat_interval_ms) == (None, INTERVAL_MS - 400)
    tick(driver)
    assert not driver.group.awaits_assignment("b")
    assert driver.epochs() == (4, 4, {"a": 3, "b": 3})
    assert [len(driver.beat(member).assignment["orders"][1]) for member in "ab"] == [2, 2]
    assert sorted(partitions_of(driver, "a") + partitions_of(driver, "b")) == [0, 1, 2, 3]


def test_the_next_heartbeat_after_the_interval_runs_it_as_well() -> None:
    driver = reading("a")
    driver.join("b", metadata=FOUR)
    driver.now_ms += INTERVAL_MS - 1
    assert driver.beat("b").assignment is None
    driver.now_ms += 1
    assert driver.beat("b").assignment is not None
    assert ShareGroupRecord(GROUP, 4, 4, driver.group.metadata.group_state) in driver.last.records


def test_join_after_the_interval_is_assigned_immediately() -> None:
    driver = reading("a")
    driver.now_ms += INTERVAL_MS
    assert driver.join("b", metadata=FOUR).assignment is not None
    assert driver.group.metadata.assignment_timestamp_ms == driver.now_ms


def test_share_partitions_initialized_in_the_interval_wait_for_the_run() -> None:
    driver = reading("a")
    driver.send(request("a", 3, None, {"orders": TopicMetadata("id-orders", 5)}))
    driver.initialize_all()
    assert driver.beat("a").assignment is None
    tick(driver)
    assert driver.beat("a").assignment == {"orders": ["id-orders", [0, 1, 2, 3, 4]]}


def test_departed_members_records_are_released_before_the_next_run() -> None:
    driver = reading("a", "b")
    epoch = driver.group.metadata.members["b"].member_epoch
    driver.leave("b")
    of_orders = TopicPartitions("orders", "id-orders", (0, 1, 2, 3))
    assert driver.last.releases == (ReleaseMember(GROUP, "b", epoch, (of_orders,)),)
    assert len(partitions_of(driver, "a")) == 2
    tick(driver)
    assert driver.beat("a").assignment == ALL_FOUR


def test_immediate_rejoin_gets_a_higher_epoch() -> None:
    """The releases and rejections of its old epoch must not affect it."""
    driver = reading("a", "b")
    left_with = driver.group.metadata.members["b"].member_epoch
    driver.leave("b")
    driver.group = driver.through_json()
    assert driver.join("b", metadata=FOUR).member_epoch > left_with
    assert len(partitions_of(driver, "b")) == 2


def test_a_group_that_was_empty_waits_for_nothing() -> None:
    driver = reading("a")
    driver.leave("a")
    assert driver.epochs() == (4, 4, {})
    assert driver.join("b", metadata=FOUR).assignment == ALL_FOUR


def test_unsubscribed_topics_are_removed_immediately() -> None:
    driver = Driver(SIMPLE)
    driver.join("a", ["bills", "orders"], ORDERS_AND_BILLS)
    driver.initialize_all()
    driver.beat("a")
    response = driver.send(request("a", 3, ["bills"], ORDERS_AND_BILLS))
    assert (response.member_epoch, response.assignment) == (3, {"bills": ["id-bills", [0]]})
    tick(driver)
    assert driver.beat("a").assignment is None


def test_another_assignor_is_a_reason_to_run_it() -> None:
    driver = reading("a", "b")
    driver.config = replace(SIMPLE, assignor="all")
    assert driver.beat("a").assignment is None
    assert driver.epochs()[:2] == (5, 4), "not sooner than any other reason"
    tick(driver)
    assert driver.beat("a").assignment == driver.beat("b").assignment == ALL_FOUR
    assert driver.group.metadata.assignor == "all"


def test_a_group_chooses_its_assignor_by_a_request() -> None:
    job = parse_config({"group": {"group.share.assignors": "simple,all"}}, "test")
    driver = reading("a")
    chosen = AlterConfigsRequest("x", GROUP, configs={"share.assignor": "all"})
    assert driver.administer(chosen, job).error_code == 0
    assert job.effective_group_config(GROUP, driver.group.metadata.configs).config.assignor == "all"
    refused = driver.administer(chosen)
    assert refused.error_message == "share.assignor must be one of group.share.assignors (all and simple)"


@pytest.mark.parametrize("who", ["a", "b", "c"])
def test_after_a_start_without_a_checkpoint_nothing_moves(who: str) -> None:
    driver = reading("a", "b", "c")
    before = {member: partitions_of(driver, member) for member in "abc"}
    driver.group = ShareGroup.load(GROUP, driver.group_tables(), driver.now_ms, SIMPLE)
    assert driver.group.assignment_deadline_ms(SIMPLE) is None
    assert (driver.beat(who).assignment, driver.last.records) == (None, ())
    driver.leave(who)
    for member in set("abc") - {who}:
        driver.beat(member)
        assert set(before[member]) <= set(partitions_of(driver, member))


def test_recovery_repeats_a_run_that_not_all_members_received() -> None:
    driver = reading("a", "b")
    driver.join("c", metadata=FOUR)
    tick(driver)
    driver.beat("a")
    driver.group = ShareGroup.load(GROUP, driver.group_tables(), driver.now_ms, SIMPLE)
    for member in "abc":
        driver.send(request(member, driver.group.metadata.members[member].member_epoch, ["orders"], ORDERS))
    assert sorted(p for member in "abc" for p in partitions_of(driver, member)) == [0, 1, 2, 3]
