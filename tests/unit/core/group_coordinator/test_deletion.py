"""DeleteShareGroupOffsets and DeleteGroups: both steps, recreation in between, and recovery from the tables."""

import pytest

from sharegroup.core.group_coordinator import (
    GroupState,
    ShareGroup,
    ShareGroupRecord,
    SharePartitionStatus,
    TopicPartitions,
)
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import (
    AlterOffsetsRequest,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    StartOffset,
    TopicMetadata,
)
from sharegroup.protocol.rows.share_group_responses import ShareGroupResponse
from tests.unit.core.group_coordinator.driver import CONFIG, GROUP, ORDERS, ORDERS_AND_BILLS, Driver

DELETING, INITIALIZING = SharePartitionStatus.DELETING, SharePartitionStatus.INITIALIZING
NOTHING = (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "There is no offset information to delete.")


def left() -> Driver:
    """Return a group with two topics and no members: group epoch 4, states of epoch 2."""
    driver = Driver()
    driver.join("a", ("orders", "bills"), ORDERS_AND_BILLS)
    driver.initialize_all()
    driver.leave("a")
    return driver


def delete_offsets(driver: Driver, *topics: str) -> ShareGroupResponse:
    group_id = driver.group.metadata.group_id
    return driver.administer(DeleteOffsetsRequest("x", group_id, topic_names=topics))


def delete_group(driver: Driver) -> ShareGroupResponse:
    return driver.administer(DeleteGroupRequest("x", driver.group.metadata.group_id))


def statuses(driver: Driver) -> dict[str, list[SharePartitionStatus]]:
    known = driver.group.metadata.share_partitions
    return {topic_id: [record.status for record in records.values()] for topic_id, records in known.items()}


def notice(driver: Driver, *share_partitions: tuple[str, int, int]) -> None:
    driver.apply(driver.group.handle_deleted(share_partitions))


def test_offsets_are_deleted_in_two_steps() -> None:
    driver = left()
    response = delete_offsets(driver, "orders", "unknown")
    assert (response.error_code, response.topic_errors) == (0, (("orders", 0, None), ("unknown", *NOTHING)))
    assert statuses(driver) == {"id-orders": [DELETING] * 2, "id-bills": [SharePartitionStatus.INITIALIZED]}
    assert driver.group.metadata.assignable_topics() == {"bills": TopicPartitions("bills", "id-bills", (0,))}
    assert delete_offsets(driver, "orders").topic_errors == (("orders", 0, None),)
    assert driver.last.records == ()
    notice(driver, ("id-orders", 0, 2))
    assert [(r.partition, r.is_tombstone) for r in driver.last.records] == [(0, True)]  # type: ignore[union-attr]
    notice(driver, ("id-orders", 0, 2), ("id-orders", 1, 2))
    assert statuses(driver) == {"id-bills": [SharePartitionStatus.INITIALIZED]}
    assert delete_offsets(driver, "orders").topic_errors == (("orders", *NOTHING),)


def test_resubscribed_deleted_topic_starts_under_a_higher_epoch() -> None:
    driver = left()
    delete_offsets(driver, "orders")
    notice(driver, ("id-orders", 0, 2), ("id-orders", 1, 2))
    driver.join("a")
    made = driver.group.metadata.share_partitions["id-orders"].values()
    assert {(record.status, record.state_epoch, record.start_offset) for record in made} == {(INITIALIZING, 5, -1)}


@pytest.mark.parametrize("is_altered", [True, False])
def test_topic_recreated_during_its_deletion_stays(is_altered: bool) -> None:
    driver = left()
    delete_offsets(driver, "orders")
    if is_altered:
        offsets = (StartOffset("orders", 0, 9), StartOffset("orders", 1, 9))
        driver.administer(AlterOffsetsRequest("x", GROUP, offsets=offsets, topics=ORDERS))
    else:
        driver.join("a")
    notice(driver, ("id-orders", 0, 2), ("id-orders", 1, 2))
    made = driver.group.metadata.share_partitions["id-orders"].values()
    expected = (INITIALIZING, 5, 9 if is_altered else -1)
    assert [(record.status, record.state_epoch, record.start_offset) for record in made] == [expected] * 2


def test_offsets_are_deleted_by_name_for_all_topic_ids() -> None:
    driver = left()
    driver.administer(
        AlterOffsetsRequest(
            "x",
            GROUP,
            offsets=(StartOffset("orders", 0, 9),),
            topics={"orders": TopicMetadata("id-new", 2)},
        )
    )
    assert delete_offsets(driver, "orders").topic_errors == (("orders", 0, None),)
    assert statuses(driver) == {
        "id-orders": [DELETING] * 2,
        "id-new": [DELETING],
        "id-bills": [SharePartitionStatus.INITIALIZED],
    }
    notice(driver, ("id-new", 0, 5), ("id-orders", 0, 2))
    assert delete_offsets(driver, "orders").topic_errors == (("orders", 0, None),)
    notice(driver, ("id-orders", 1, 2))
    assert delete_offsets(driver, "orders").topic_errors == (("orders", *NOTHING),)


def test_notice_for_a_share_partition_not_in_deletion_is_ignored() -> None:
    driver = left()
    notice(driver, ("id-orders", 0, 2), ("id-orders", 7, 2), ("unknown", 0, 2))
    assert driver.last.records == ()


def test_group_is_dead_immediately_and_removed_with_its_last_state() -> None:
    driver = left()
    assert delete_group(driver).error_code == 0
    assert statuses(driver) == {"id-orders": [DELETING] * 2, "id-bills": [DELETING]}
    assert driver.last.records[-1] == ShareGroupRecord(GROUP, 4, 4, GroupState.DEAD)
    assert delete_group(driver).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    notice(driver, ("id-orders", 0, 2), ("id-bills", 0, 2))
    assert not driver.group.is_deleted
    notice(driver, ("id-orders", 1, 2))
    assert driver.group.is_deleted
    assert driver.last.records[-1] == ShareGroupRecord(GROUP, 4, 4, GroupState.DEAD, is_tombstone=True)
    assert driver.join("a").member_epoch == 5  # requests of the old group stay fenced
    assert driver.group.metadata.group_state is GroupState.STABLE


def test_group_without_share_partitions_is_removed_immediately() -> None:
    driver = Driver()
    driver.join("a", metadata={})
    driver.leave("a")
    delete_group(driver)
    assert driver.last.records == (ShareGroupRecord(GROUP, 3, 3, GroupState.DEAD, is_tombstone=True),)


def test_dead_group_joined_again_keeps_its_row_and_finishes_deletion() -> None:
    driver = left()
    delete_group(driver)
    driver.join("a")
    assert statuses(driver) == {"id-orders": [INITIALIZING] * 2, "id-bills": [DELETING]}
    notice(driver, ("id-orders", 0, 2), ("id-orders", 1, 2), ("id-bills", 0, 2))
    assert statuses(driver) == {"id-orders": [INITIALIZING] * 2}
    assert driver.group.metadata.exists


def test_a_half_deleted_group_comes_back_from_the_tables_and_from_its_dump() -> None:
    driver = left()
    delete_group(driver)
    from_tables = ShareGroup.load(GROUP, driver.group_tables(), driver.now_ms, CONFIG)
    assert from_tables.metadata == driver.through_json().metadata == driver.group.metadata
    driver.group = from_tables
    notice(driver, ("id-orders", 0, 2), ("id-orders", 1, 2), ("id-bills", 0, 2))
    assert driver.group.is_deleted


def test_deletion_of_nonempty_or_unknown_groups_is_rejected() -> None:
    driver = Driver()
    driver.join("a")
    before = driver.group.dump()
    for response in (delete_offsets(driver, "orders"), delete_group(driver)):
        assert (response.error_code, response.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    assert driver.group.dump() == before
    for response in (delete_offsets(Driver(), "orders"), delete_group(Driver())):
        told = (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found.")
        assert (response.error_code, response.error_message) == told
    for response in (delete_offsets(Driver(group_id=""), "orders"), delete_group(Driver(group_id=""))):
        assert response.error_code == ErrorCode.INVALID_GROUP_ID
