"""The first group epoch, and the assignment of share-partitions that are initialized one after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharegroup.core.group_coordinator import ShareGroup, SharePartitionStatus
from sharegroup.core.group_coordinator.records import InitializationRecord, Record, SoftRecord
from sharegroup.core.group_coordinator.target_assignment import DISCOVERY_MS, INITIALIZING_MS
from sharegroup.protocol.rows.share_group_requests import (
    AlterOffsetsRequest,
    DeleteGroupRequest,
    StartOffset,
    TopicMetadata,
)
from tests.unit.core.group_coordinator.driver import CONFIG, GROUP, ORDERS_AND_BILLS, Driver, request

FOUR = {"orders": TopicMetadata("id-orders", 4)}
ALL_FOUR = {"orders": ["id-orders", [0, 1, 2, 3]]}


def joined(*members: str) -> Driver:
    """Return a group that subscribes to four share-partitions, none of which is initialized."""
    driver = Driver()
    for member in members:
        driver.join(member, metadata=FOUR)
    return driver


def initialize(driver: Driver, *partitions: int, topic_id: str = "id-orders") -> None:
    """Apply one notice of the share_partition query."""
    known = driver.group.metadata.share_partitions[topic_id]
    notices = [(topic_id, partition, known[partition].state_epoch) for partition in partitions]
    driver.apply(driver.group.handle_initialized(notices, driver.now_ms))


def reach_deadline(driver: Driver) -> None:
    """Run the assignor at its deadline, as the operator does at a tick."""
    deadline_ms = driver.group.assignment_deadline_ms(driver.config)
    assert deadline_ms is not None
    driver.now_ms = deadline_ms
    driver.expire()


def initialized(driver: Driver, topic_id: str = "id-orders") -> tuple[int, ...]:
    return driver.group.metadata.partitions_with_status(topic_id, SharePartitionStatus.INITIALIZED)


def test_the_first_epoch_of_a_joined_group_is_2() -> None:
    driver = Driver()
    assert driver.join("a", ["orders"], {}).member_epoch == 2
    assert driver.epochs() == (2, 2, {"a": 2})


def test_the_first_epoch_of_an_altered_group_is_2() -> None:
    driver = Driver()
    driver.administer(AlterOffsetsRequest("x", GROUP, offsets=(StartOffset("orders", 0, 9),), topics=FOUR))
    assert driver.epochs() == (2, 2, {})
    assert driver.group.metadata.share_partitions["id-orders"][0].state_epoch == 2


@pytest.mark.parametrize(
    "batches",
    [((0, 1, 2, 3),), ((0, 1), (2, 3)), ((3,), (1,), (0,), (2,)), ((0, 1), (0, 1, 2), (1, 3))],
    ids=["one", "two", "each", "repeated"],
)
def test_a_topic_is_assigned_as_a_whole_under_one_epoch(batches: tuple[tuple[int, ...], ...]) -> None:
    driver = joined("a", "b")
    for partitions in batches[:-1]:
        initialize(driver, *partitions)
        driver.now_ms += 10
        assert [driver.beat(member).assignment for member in "ab"] == [None, None]
        assert driver.epochs() == (3, 3, {"a": 3, "b": 3})
    assert driver.group.assignment_deadline_ms(CONFIG) == (1_000_000 + INITIALIZING_MS if len(batches) > 1 else None)
    initialize(driver, *batches[-1])
    assert driver.epochs()[:2] == (4, 4)
    assert driver.group.assignment_deadline_ms(CONFIG) is None
    assert [driver.beat(member).assignment for member in "ab"] == [ALL_FOUR, ALL_FOUR]
    assert driver.epochs() == (4, 4, {"a": 4, "b": 4})
    assert [driver.beat(member).assignment for member in "ab"] == [None, None]


@pytest.mark.parametrize("batches", [((0, 1, 2, 3),), ((0, 1), (2, 3))], ids=["one", "two"])
def test_a_new_topic_costs_a_group_one_epoch(batches: tuple[tuple[int, ...], ...]) -> None:
    driver = Driver()
    for member in "ab":
        driver.join(member, ["orders"], {})
    driver.send(request("a", 2, None, FOUR))
    assert driver.epochs() == (4, 3, {"a": 3, "b": 3})
    for partitions in batches:
        assert driver.group.assignment_deadline_ms(CONFIG) == 1_000_000 + DISCOVERY_MS
        assert [driver.beat(member).assignment for member in "ab"] == [None, None]
        driver.now_ms += 10
        initialize(driver, *partitions)
    assert driver.group.assignment_deadline_ms(CONFIG) is None
    assert [driver.beat(member).assignment for member in "ab"] == [ALL_FOUR, ALL_FOUR]
    assert driver.epochs() == (4, 4, {"a": 4, "b": 4})


def test_new_topics_of_one_heartbeat_cost_a_group_one_epoch() -> None:
    driver = Driver()
    driver.join("a", ["bills", "orders"], {})
    driver.send(request("a", 2, None, ORDERS_AND_BILLS))
    initialize(driver, 0, topic_id="id-bills")
    assert driver.epochs() == (3, 2, {"a": 2})
    initialize(driver, 0, 1)
    assert driver.beat("a").assignment == {"bills": ["id-bills", [0]], "orders": ["id-orders", [0, 1]]}
    assert driver.epochs() == (3, 3, {"a": 3})


def test_a_discovered_share_partition_that_is_slow_does_not_hold_up_the_others() -> None:
    driver = Driver()
    driver.join("a", ["orders"], {})
    driver.send(request("a", 2, None, FOUR))
    initialize(driver, 0, 1, 3)
    assert driver.beat("a").heartbeat_interval_ms == 200
    reach_deadline(driver)
    assert driver.now_ms == 1_000_000 + DISCOVERY_MS
    assert driver.beat("a").assignment == {"orders": ["id-orders", [0, 1, 3]]}
    initialize(driver, 2)
    assert driver.beat("a").assignment == ALL_FOUR
    assert driver.epochs() == (4, 4, {"a": 4})


def test_a_second_discovery_does_not_prolong_the_wait() -> None:
    driver = Driver()
    driver.join("a", ["bills", "orders"], {})
    driver.send(request("a", 2, None, FOUR))
    driver.now_ms += 100
    driver.send(request("a", 2, None, ORDERS_AND_BILLS))
    assert driver.epochs() == (4, 2, {"a": 2})
    assert driver.group.assignment_deadline_ms(CONFIG) == 1_000_000 + DISCOVERY_MS
    initialize(driver, 0, 1, 2, 3)
    initialize(driver, 0, topic_id="id-bills")
    assert driver.epochs() == (4, 4, {"a": 2})


def test_a_join_does_not_wait_for_a_discovered_topic() -> None:
    driver = Driver()
    driver.join("a", ["orders"], {})
    driver.send(request("a", 2, None, FOUR))
    assert driver.join("b", ["orders"], FOUR).member_epoch == 4
    assert driver.epochs() == (4, 4, {"a": 2, "b": 4})
    initialize(driver, 0, 1, 2, 3)
    assert [driver.beat(member).assignment for member in "ab"] == [ALL_FOUR, ALL_FOUR]


@pytest.mark.parametrize("restored", ["dump", "tables"])
def test_a_discovered_topic_is_assigned_after_a_restart(restored: str) -> None:
    driver = Driver()
    driver.join("a", ["orders"], {})
    driver.send(request("a", 2, None, FOUR))
    if restored == "dump":
        driver.group = driver.through_json()
    else:
        driver.group = ShareGroup.load(GROUP, driver.group_tables(), driver.now_ms, CONFIG)
    initialize(driver, 0, 1, 2, 3)
    assert driver.beat("a").assignment == ALL_FOUR
    if restored == "dump":
        assert driver.epochs() == (3, 3, {"a": 3})


def test_a_slow_share_partition_does_not_hold_up_the_others() -> None:
    driver = joined("a")
    initialize(driver, 0)
    driver.now_ms += INITIALIZING_MS - 1
    initialize(driver, 1, 3)
    assert driver.beat("a").assignment is None
    assert driver.group.assignment_deadline_ms(CONFIG) == driver.now_ms + 1, "counted from the first one"
    reach_deadline(driver)
    assert driver.epochs() == (3, 3, {"a": 2})
    assert driver.group.assignment_deadline_ms(CONFIG) is None
    assert driver.beat("a").assignment == {"orders": ["id-orders", [0, 1, 3]]}
    assert driver.group.awaits_assignment("a")
    driver.now_ms += 60_000
    driver.expire()
    driver.join("a", metadata=FOUR)
    epoch = driver.epochs()[0]
    initialize(driver, 2)
    assert driver.beat("a").assignment == ALL_FOUR
    assert driver.epochs() == (epoch + 1, epoch + 1, {"a": epoch + 1})


def test_wait_restarts_for_later_initializations() -> None:
    driver = joined("a")
    initialize(driver, 0)
    reach_deadline(driver)
    driver.now_ms += 5_000
    initialize(driver, 1)
    assert driver.group.assignment_deadline_ms(CONFIG) == driver.now_ms + INITIALIZING_MS
    reach_deadline(driver)
    assert driver.beat("a").assignment == {"orders": ["id-orders", [0, 1]]}


def test_run_for_another_reason_assigns_initialized_share_partitions() -> None:
    driver = joined("a")
    initialize(driver, 0, 1)
    assert driver.join("b", metadata=FOUR).assignment == {"orders": ["id-orders", [0, 1]]}
    assert driver.group.assignment_deadline_ms(CONFIG) is None
    assert driver.epochs()[:2] == (3, 3)
    initialize(driver, 2, 3)
    assert [driver.beat(member).assignment for member in "ab"] == [ALL_FOUR, ALL_FOUR]
    assert driver.epochs()[:2] == (4, 4)


@pytest.mark.parametrize("partitions", [(4,), (4, 5)])
def test_notices_before_a_due_run_raise_no_epoch(partitions: tuple[int, ...]) -> None:
    driver = Driver(replace(CONFIG, assignor="simple", assignment_interval_ms=15_000))
    driver.join("a", metadata=FOUR)
    driver.initialize_all()
    driver.beat("a")
    driver.send(request("a", 3, None, {"orders": TopicMetadata("id-orders", 6)}))
    assert driver.epochs() == (4, 3, {"a": 3})
    deadline_ms = driver.group.assignment_deadline_ms(driver.config)
    initialize(driver, *partitions)
    assert driver.epochs() == (4, 3, {"a": 3})
    assert driver.group.assignment_deadline_ms(driver.config) == deadline_ms == driver.now_ms + 15_000
    reach_deadline(driver)
    assert driver.beat("a").assignment == {"orders": ["id-orders", [0, 1, 2, 3, *partitions]]}
    assert driver.epochs() == (4, 4, {"a": 4})


def test_a_topic_does_not_wait_for_a_topic_of_a_later_notice() -> None:
    driver = Driver()
    driver.join("a", ["bills", "orders"], ORDERS_AND_BILLS)
    initialize(driver, 0, topic_id="id-bills")
    assert driver.beat("a").assignment == {"bills": ["id-bills", [0]]}
    initialize(driver, 0)
    assert driver.beat("a").assignment is None
    initialize(driver, 1)
    assert driver.beat("a").assignment == {"bills": ["id-bills", [0]], "orders": ["id-orders", [0, 1]]}
    assert driver.epochs() == (4, 4, {"a": 4})


def test_a_topic_does_not_wait_for_a_topic_of_the_same_notice() -> None:
    """Otherwise a member that reads only the complete topic would wait until its next regular heartbeat."""
    driver = Driver()
    driver.join("a", ["bills"], ORDERS_AND_BILLS)
    driver.join("b", ["orders"], ORDERS_AND_BILLS)
    notices = [("id-bills", 0, 2), ("id-orders", 0, 3)]
    driver.apply(driver.group.handle_initialized(notices, driver.now_ms))
    assert not driver.group.awaits_assignment("a")
    assert driver.beat("a").assignment == {"bills": ["id-bills", [0]]}
    assert driver.group.awaits_assignment("b")
    initialize(driver, 1)
    assert driver.beat("b").assignment == {"orders": ["id-orders", [0, 1]]}
    assert driver.epochs() == (5, 5, {"a": 4, "b": 5})


def test_deletion_of_the_topic_ends_the_wait() -> None:
    driver = joined("a")
    initialize(driver, 0)
    driver.topics_deleted("id-orders")
    assert driver.group.assignment_deadline_ms(CONFIG) is None
    assert driver.epochs() == (3, 3, {"a": 2})


def test_deletion_of_the_group_ends_the_wait() -> None:
    driver = Driver()
    offsets = tuple(StartOffset("orders", partition, 9) for partition in range(4))
    driver.administer(AlterOffsetsRequest("x", GROUP, offsets=offsets, topics=FOUR))
    initialize(driver, 0)
    assert driver.group.assignment_deadline_ms(CONFIG) is not None
    driver.administer(DeleteGroupRequest("x", GROUP))
    assert driver.group.assignment_deadline_ms(CONFIG) is None
    assert driver.through_json().metadata == driver.group.metadata


def test_a_dump_keeps_since_when_a_topic_is_being_initialized() -> None:
    driver = joined("a")
    initialize(driver, 0)
    since_ms = driver.now_ms
    driver.now_ms += 10
    driver.group = driver.through_json()
    assert driver.group.metadata.initializing_since_ms == since_ms
    reach_deadline(driver)
    assert driver.now_ms == since_ms + INITIALIZING_MS
    assert driver.through_json().metadata.initializing_since_ms is None
    assert driver.beat("a").assignment == {"orders": ["id-orders", [0]]}


def test_recovery_ends_the_wait() -> None:
    """The tables do not contain when the first share-partitions were initialized."""
    driver = joined("a")
    initialize(driver, 0)
    waits: list[Record] = [record for record in driver.records if isinstance(record, InitializationRecord)]
    assert waits == [InitializationRecord(driver.now_ms)]
    assert isinstance(waits[0], SoftRecord)
    driver.group = ShareGroup.load(GROUP, driver.group_tables(), driver.now_ms, CONFIG)
    assert initialized(driver) == (0,)
    assert driver.beat("a").assignment == {"orders": ["id-orders", [0]]}
