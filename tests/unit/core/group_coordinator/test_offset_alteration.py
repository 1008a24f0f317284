"""AlterShareGroupOffsets: alterations, their epochs, and rejections."""

from sharegroup.core.group_coordinator import GroupState, SharePartitionRecord, SharePartitionStatus
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import AlterOffsetsRequest, StartOffset, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import ShareGroupResponse
from tests.unit.core.group_coordinator.driver import GROUP, ORDERS, Driver

DELETING = SharePartitionStatus.DELETING
INITIALIZING, INITIALIZED = SharePartitionStatus.INITIALIZING, SharePartitionStatus.INITIALIZED
UNKNOWN = (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "This server does not host this topic-partition.")


def alter(driver: Driver, *offsets: tuple[str, int, int], topic_id: str = "id-orders") -> ShareGroupResponse:
    topics = {"orders": TopicMetadata(topic_id, 2)}
    named = tuple(StartOffset(*offset) for offset in offsets)
    group_id = driver.group.metadata.group_id
    return driver.administer(AlterOffsetsRequest("x", group_id, offsets=named, topics=topics))


def left(driver: Driver) -> Driver:
    """Return a group that was joined, initialized and left, at group epoch 4."""
    driver.join("a")
    driver.initialize_all()
    driver.leave("a")
    return driver


def partition(
    number: int, status: SharePartitionStatus, epoch: int, start_offset: int, topic_id: str = "id-orders"
) -> SharePartitionRecord:
    reset = "latest" if start_offset == -1 else None
    return SharePartitionRecord(GROUP, "orders", topic_id, number, status, epoch, start_offset, reset)


def test_altered_share_partition_is_initialized_under_the_next_epoch() -> None:
    driver = left(Driver())
    response = alter(driver, ("orders", 0, 17))
    assert (response.error_code, response.partition_errors) == (0, (("orders", 0, 0, None),))
    assert driver.epochs() == (5, 5, {})
    known = driver.group.metadata.share_partitions["id-orders"]
    assert known == {0: partition(0, INITIALIZING, 5, 17), 1: partition(1, INITIALIZED, 2, -1)}
    driver.initialize_all()
    assert driver.join("a").assignment == {"orders": ["id-orders", [0, 1]]}
    assert driver.group.metadata.share_partitions["id-orders"][0].start_offset == 17


def test_the_notice_of_the_state_before_does_not_initialize_it() -> None:
    driver = left(Driver())
    alter(driver, ("orders", 0, 17))
    driver.apply(driver.group.handle_initialized([("id-orders", 0, 2)], driver.now_ms))
    assert driver.group.metadata.share_partitions["id-orders"][0].status is INITIALIZING


def test_an_unknown_group_is_made_empty() -> None:
    driver = Driver()
    alter(driver, ("orders", 0, 5), ("orders", 1, 0))
    group = driver.group.metadata
    assert (group.exists, group.group_state, group.group_epoch) == (True, GroupState.EMPTY, 2)
    assert group.share_partitions["id-orders"] == {
        0: partition(0, INITIALIZING, 2, 5),
        1: partition(1, INITIALIZING, 2, 0),
    }


def test_each_share_partition_has_its_own_error() -> None:
    driver = left(Driver())
    response = alter(driver, ("orders", 2, 5), ("orders", -1, 5), ("bills", 0, 5), ("orders", 1, -1), ("orders", 0, 5))
    assert response.error_code == 0
    assert response.partition_errors == (
        ("orders", 2, *UNKNOWN),
        ("orders", -1, *UNKNOWN),
        ("bills", 0, *UNKNOWN),
        ("orders", 1, int(ErrorCode.INVALID_REQUEST), "StartOffset -1 is negative."),
        ("orders", 0, 0, None),
    )
    assert driver.group.metadata.share_partitions["id-orders"][1].state_epoch == 2


def test_nothing_that_can_be_altered_makes_no_group() -> None:
    driver = Driver()
    assert [error[:2] for error in alter(driver, ("bills", 0, 5)).partition_errors] == [("bills", 0)]
    assert (driver.group.metadata.exists, driver.last.records) == (False, ())


def test_alteration_rejects_groups_with_members_and_blank_ids() -> None:
    driver = Driver()
    driver.join("a")
    before = driver.group.dump()
    response = alter(driver, ("orders", 0, 5))
    assert (response.error_code, response.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    assert (driver.group.dump(), response.partition_errors) == (before, ())
    assert alter(Driver(group_id=" "), ("orders", 0, 5)).error_code == ErrorCode.INVALID_GROUP_ID


def test_alteration_names_the_new_topic_and_deletes_the_previous_one() -> None:
    driver = left(Driver())
    alter(driver, ("orders", 1, 5), topic_id="id-new")
    assert driver.group.metadata.share_partitions == {
        "id-orders": {0: partition(0, DELETING, 2, -1), 1: partition(1, DELETING, 2, -1)},
        "id-new": {1: partition(1, INITIALIZING, 5, 5, "id-new")},
    }
    assert driver.group.metadata.topic_ids() == {"orders": "id-new"}
    driver.join("a", metadata=ORDERS)
    assert driver.group.metadata.topic_ids() == {"orders": "id-new"}, "old metadata of a member is left alone"
    driver.initialize_all()
    assert driver.beat("a").assignment == {"orders": ["id-new", [1]]}


def test_deleted_topic_is_not_altered() -> None:
    driver = left(Driver())
    driver.topics_deleted("id-orders")
    assert alter(driver, ("orders", 0, 5)).partition_errors == (("orders", 0, *UNKNOWN),)
    assert driver.last.records == ()


def test_a_member_discovers_the_partitions_that_were_not_altered() -> None:
    driver = Driver()
    alter(driver, ("orders", 1, 5))
    driver.join("a", metadata=ORDERS)
    assert driver.group.metadata.share_partitions["id-orders"] == {
        0: partition(0, INITIALIZING, 3, -1),  # it existed before, so share.auto.offset.reset decides
        1: partition(1, INITIALIZING, 2, 5),
    }
