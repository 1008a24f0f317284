"""Topics that are deleted and created again: notifications, and the effect of old metadata."""

from sharegroup.core.group_coordinator import (
    CoordinatorResult,
    DeletedTopicRecord,
    GroupState,
    ReleaseMember,
    ShareGroup,
    ShareGroupRecord,
    SharePartitionRecord,
    SharePartitionStatus,
    TargetAssignmentRecord,
    TopicPartitions,
)
from sharegroup.core.group_coordinator.group_metadata import DELETED_TOPIC_MS, MAX_DELETED_TOPICS
from sharegroup.core.group_coordinator.records import TargetAssignmentMetadataRecord
from sharegroup.protocol.rows.share_group_requests import DeleteGroupRequest, DeleteOffsetsRequest, TopicMetadata
from tests.unit.core.group_coordinator.driver import CONFIG, GROUP, ORDERS, ORDERS_AND_BILLS, Driver, request

DELETING, INITIALIZING = SharePartitionStatus.DELETING, SharePartitionStatus.INITIALIZING
INITIALIZED = SharePartitionStatus.INITIALIZED
AGAIN = {"orders": TopicMetadata("id-again", 3)}
BILLS = {"bills": ["id-bills", [0]]}


def reading() -> Driver:
    """Return a group whose member reads orders and bills, at epoch 3."""
    driver = Driver()
    driver.join("a", ["bills", "orders"], ORDERS_AND_BILLS)
    driver.initialize_all()
    driver.beat("a")
    return driver


def share_partition(
    partition: int, status: SharePartitionStatus, epoch: int, offset: int, topic_id: str = "id-orders"
) -> SharePartitionRecord:
    reset = "latest" if offset == -1 else None
    return SharePartitionRecord(GROUP, "orders", topic_id, partition, status, epoch, offset, reset)


def test_deleted_topic_leaves_the_members_assignments() -> None:
    driver = reading()
    result = driver.topics_deleted("id-orders")
    assert result == CoordinatorResult(
        (
            share_partition(0, DELETING, 2, -1),
            share_partition(1, DELETING, 2, -1),
            ShareGroupRecord(GROUP, 4, 4, GroupState.STABLE),
        ),
        (
            DeletedTopicRecord("id-orders", driver.now_ms),
            TargetAssignmentRecord("a", (TopicPartitions("bills", "id-bills", (0,)),)),
            TargetAssignmentMetadataRecord("all", driver.now_ms),
        ),
    )
    told = driver.beat("a")
    assert (told.member_epoch, told.assignment) == (4, BILLS)
    assert driver.beat("a").assignment is None


def test_a_notice_that_is_repeated_or_of_something_unknown_changes_nothing() -> None:
    driver = reading()
    driver.topics_deleted("id-orders", "unknown", "id-orders")
    assert driver.epochs() == (4, 4, {"a": 3})
    assert driver.topics_deleted("unknown", "id-orders") == CoordinatorResult()
    driver.topics_deleted("another")
    assert (driver.last.records, driver.epochs()) == ((), (4, 4, {"a": 3}))


def test_old_metadata_does_not_bring_it_back() -> None:
    driver = reading()
    driver.topics_deleted("id-orders")
    driver.apply(driver.group.handle_deleted([("id-orders", 0, 2), ("id-orders", 1, 2)]))
    response = driver.send(request("a", 3, ["bills", "orders"], ORDERS_AND_BILLS))
    assert (response.assignment, list(driver.group.metadata.share_partitions)) == (BILLS, ["id-bills"])
    driver.group = driver.through_json()
    driver.join("b", ["orders"], ORDERS)
    assert list(driver.group.metadata.share_partitions) == ["id-bills"]


def test_the_topic_that_is_made_again_is_a_new_one() -> None:
    driver = reading()
    driver.topics_deleted("id-orders")
    driver.send(request("a", 3, None, AGAIN))
    assert driver.group.metadata.share_partitions["id-again"] == {
        partition: share_partition(partition, INITIALIZING, 5, -1, "id-again") for partition in range(3)
    }
    driver.initialize_all()
    assert driver.beat("a").assignment == {**BILLS, "orders": ["id-again", [0, 1, 2]]}
    driver.send(request("a", 5, None, {"orders": TopicMetadata("id-again", 4)}))
    added = driver.group.metadata.share_partitions["id-again"][3]
    assert added == share_partition(3, INITIALIZING, 6, 0, "id-again")


def test_new_topic_id_is_ignored_until_the_old_one_is_deleted() -> None:
    driver = reading()
    driver.send(request("a", 3, None, AGAIN))
    assert driver.last.records == ()
    driver.topics_deleted("id-orders")
    driver.send(request("a", 3, None, AGAIN))
    assert driver.group.metadata.topic_ids() == {"bills": "id-bills", "orders": "id-again"}


def test_deleted_initializing_topic_keeps_no_member_waiting() -> None:
    driver = Driver()
    driver.join("a")
    assert driver.group.awaits_assignment("a")
    driver.topics_deleted("id-orders")
    assert not driver.group.awaits_assignment("a")
    driver.initialize_all()
    assert driver.beat("a").assignment is None, "it never had any"
    assert driver.group.metadata.partitions_with_status("id-orders", DELETING) == (0, 1)


def test_departed_member_is_released_in_the_remaining_topics() -> None:
    driver = reading()
    driver.topics_deleted("id-orders")
    driver.leave("a")
    assert driver.last.releases == (ReleaseMember(GROUP, "a", 3, (TopicPartitions("bills", "id-bills", (0,)),)),)


def test_recovery_keeps_empty_and_dead_groups() -> None:
    driver = reading()
    driver.leave("a")
    driver.topics_deleted("id-orders")
    assert (driver.group.metadata.group_state, driver.epochs()) == (GroupState.EMPTY, (5, 5, {}))
    driver.administer(DeleteGroupRequest("x", GROUP))
    driver.topics_deleted("id-bills", "id-orders")
    assert (driver.group.metadata.group_state, driver.last.records) == (GroupState.DEAD, ())


def test_the_newest_are_remembered_for_a_while() -> None:
    driver = reading()
    driver.topics_deleted(*(f"id-{number}" for number in range(MAX_DELETED_TOPICS + 5)))
    assert list(driver.group.metadata.deleted_topics) == [f"id-{number}" for number in range(5, MAX_DELETED_TOPICS + 5)]
    driver.topics_deleted("id-orders")
    driver.now_ms += DELETED_TOPIC_MS - 1
    driver.send(request("a", 3, None, ORDERS))
    assert driver.group.metadata.topic_ids() == {"bills": "id-bills"}
    driver.now_ms += 1
    driver.send(request("a", 4, None, ORDERS))
    assert driver.group.metadata.topic_ids() == {"bills": "id-bills", "orders": "id-orders"}
    driver.topics_deleted("id-orders")
    assert driver.group.metadata.topic_ids() == {"bills": "id-bills"}


def test_the_tables_tell_of_a_topic_that_another_one_has_replaced() -> None:
    driver = reading()
    driver.topics_deleted("id-orders")
    driver.send(request("a", 3, None, AGAIN))
    loaded = ShareGroup.load(GROUP, driver.group_tables(), driver.now_ms, CONFIG)
    assert loaded.metadata.deleted_topics == {"id-orders": driver.now_ms}
    assert loaded.metadata.topic_ids() == {"bills": "id-bills", "orders": "id-again"}


def test_offset_deletion_does_not_imply_a_deleted_topic() -> None:
    driver = reading()
    driver.leave("a")
    driver.administer(DeleteOffsetsRequest("x", GROUP, topic_names=("orders",)))
    driver.group = ShareGroup.load(GROUP, driver.group_tables(), driver.now_ms, CONFIG)
    assert driver.group.metadata.deleted_topics == {}
    driver.join("a")
    assert driver.group.metadata.partitions_with_status("id-orders", INITIALIZING) == (0, 1)
