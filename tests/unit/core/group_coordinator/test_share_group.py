"""A group's lifecycle: epochs, share-partitions, assignments, sessions and releases."""

import dataclasses
from dataclasses import replace

import pytest

from sharegroup.config.keys.offset_reset import AutoOffsetReset, OffsetResetStrategy
from sharegroup.core.group_coordinator import (
    CoordinatorResult,
    GroupState,
    ReleaseMember,
    SessionRecord,
    ShareGroupMemberRecord,
    ShareGroupRecord,
    SharePartitionRecord,
    SharePartitionStatus,
    TopicPartitions,
)
from sharegroup.core.group_coordinator.target_assignment import INITIALIZING_MS
from sharegroup.protocol.rows.share_group_requests import TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from tests.unit.core.group_coordinator.driver import CONFIG, GROUP, ORDERS, ORDERS_AND_BILLS, Driver, request

INITIALIZING, INITIALIZED = SharePartitionStatus.INITIALIZING, SharePartitionStatus.INITIALIZED
ALL_ORDERS = {"orders": ["id-orders", [0, 1]]}


def stable(*members: str) -> Driver:
    """Return a group whose members have all received their assignment."""
    driver = Driver()
    for member in members:
        driver.join(member)
    driver.initialize_all()
    for member in members:
        driver.beat(member)
    return driver


def share_partition(partition: int, status: SharePartitionStatus, epoch: int, offset: int) -> SharePartitionRecord:
    reset = "latest" if offset == -1 else None
    return SharePartitionRecord(GROUP, "orders", "id-orders", partition, status, epoch, offset, reset)


def test_first_join_creates_group_member_and_share_partitions() -> None:
    driver = Driver()
    response = driver.join("a")
    assert response == HeartbeatResponse(
        "request-a",
        "gateway-1",
        GROUP,
        member_id="a",
        member_epoch=2,
        heartbeat_interval_ms=200,
        assignment={},
        subscribed_topic_names=("orders",),
        session_deadline_ms=driver.now_ms + 45_000,
    )
    assert set(driver.last.records) == {
        ShareGroupRecord(GROUP, 2, 2, GroupState.STABLE),
        ShareGroupMemberRecord(GROUP, "a", 2, None, "client", "/10.0.0.1", ("orders",), (), 0),
        share_partition(0, INITIALIZING, 2, -1),
        share_partition(1, INITIALIZING, 2, -1),
    }
    assert driver.group.next_deadline_ms == driver.now_ms + 45_000


def test_initialized_share_partitions_are_assigned_with_the_next_heartbeat() -> None:
    driver = Driver()
    driver.join("a")
    assert set(driver.initialize_all().records) == {
        ShareGroupRecord(GROUP, 3, 3, GroupState.STABLE),
        share_partition(0, INITIALIZED, 2, -1),
        share_partition(1, INITIALIZED, 2, -1),
    }
    response = driver.beat("a")
    assert (response.member_epoch, response.heartbeat_interval_ms, response.assignment) == (3, 5_000, ALL_ORDERS)
    assignment = (TopicPartitions("orders", "id-orders", (0, 1)),)
    assert driver.last.records == (
        ShareGroupMemberRecord(GROUP, "a", 3, None, "client", "/10.0.0.1", ("orders",), assignment, 2),
    )


def test_only_initialized_share_partitions_are_assigned() -> None:
    driver = Driver()
    driver.join("a")
    driver.apply(driver.group.handle_initialized([("id-orders", 1, 2)], driver.now_ms))
    driver.now_ms += INITIALIZING_MS
    driver.expire()
    response = driver.beat("a")
    assert response.assignment == {"orders": ["id-orders", [1]]}
    assert response.heartbeat_interval_ms == 200
    driver.apply(driver.group.handle_initialized([("id-orders", 0, 2)], driver.now_ms))
    assert driver.beat("a").assignment == ALL_ORDERS


def test_a_heartbeat_interval_below_the_short_one_stays() -> None:
    driver = Driver(dataclasses.replace(CONFIG, heartbeat_interval_ms=50))
    assert driver.join("a").heartbeat_interval_ms == 50


def test_repeated_old_and_unknown_notices_change_nothing() -> None:
    driver = Driver()
    driver.join("a")
    for notice in (("id-orders", 0, 1), ("id-orders", 2, 2), ("id-bills", 0, 2)):
        assert driver.apply(driver.group.handle_initialized([notice], driver.now_ms)) == CoordinatorResult()
    driver.initialize_all()
    assert driver.initialize_all() == CoordinatorResult(), "an active share-partition is initialized already"


def test_heartbeat_without_changes_only_moves_the_session_deadline() -> None:
    driver = stable("a")
    driver.now_ms += 5_000
    response = driver.beat("a")
    assert response.assignment is None
    assert driver.last.records == ()
    assert driver.last.soft_records == (SessionRecord("a", driver.now_ms + 45_000, "gateway-1"),)


@pytest.mark.parametrize(
    ("last_through", "left_through", "after_ms", "is_released"),
    [
        ("gateway-1", "gateway-1", 1, True),
        ("gateway-1", "gateway-2", 1, False),  # gateway-1 may respond to acknowledgements until it is notified
        ("gateway-1", "a", 1, True),  # a member that sends its requests itself
        ("gateway-2", "gateway-2", 1, False),  # gateway-1 received a deadline before
        ("gateway-2", "gateway-2", 44_999, False),
        ("gateway-2", "gateway-2", 45_000, True),
    ],
)
def test_records_stay_locked_while_another_gateway_relies_on_the_session(
    last_through: str, left_through: str, after_ms: int, is_released: bool
) -> None:
    driver = stable("a")
    driver.beat("a")
    epoch = driver.group.metadata.members["a"].member_epoch
    driver.send(replace(request("a", epoch), reply_to=last_through))
    driver.now_ms += after_ms
    driver.group = driver.through_json()
    driver.send(replace(request("a", -1), reply_to=left_through))
    ((_, member_id, left_epoch, topics),) = driver.last.releases
    assert (member_id, left_epoch, bool(topics)) == ("a", epoch, is_released)


def test_direct_member_that_leaves_through_a_gateway_is_released() -> None:
    driver = Driver()
    driver.send(replace(request("a", 0, ["orders"], ORDERS), reply_to="a"))
    driver.initialize_all()
    epoch = driver.send(replace(request("a", 2), reply_to="a")).member_epoch
    driver.now_ms += 1
    driver.send(replace(request("a", -1), reply_to="gateway-1"))
    ((_, member_id, left_epoch, topics),) = driver.last.releases
    assert (member_id, left_epoch, bool(topics)) == ("a", epoch, True)


def test_response_contains_the_session_deadline() -> None:
    driver = stable("a")
    driver.now_ms += 5_000
    assert driver.beat("a").session_deadline_ms == driver.now_ms + 45_000 == driver.group.next_deadline_ms
    assert driver.send(request("a", 99)).session_deadline_ms == -1
    assert driver.leave("a").session_deadline_ms == -1


def test_a_clock_that_steps_back_shortens_no_session() -> None:
    driver = stable("a")
    deadline_ms = driver.group.next_deadline_ms
    driver.now_ms -= 10_000
    assert driver.beat("a").session_deadline_ms == deadline_ms
    assert driver.group.next_deadline_ms == deadline_ms


def test_epochs_step_by_step() -> None:
    """Group epoch, assignment epoch, member epochs: a bump for each change, and a member follows when it heartbeats."""
    driver = Driver()
    driver.join("a")
    assert driver.epochs() == (2, 2, {"a": 2})
    driver.join("b")
    assert driver.epochs() == (3, 3, {"a": 2, "b": 3})
    assert driver.beat("a").assignment is None  # nothing to read yet: the epoch moved, the assignment did not
    assert driver.epochs() == (3, 3, {"a": 3, "b": 3})
    driver.initialize_all()
    assert driver.epochs() == (4, 4, {"a": 3, "b": 3})
    driver.send(request("a", 3, ["bills", "orders"], ORDERS_AND_BILLS))
    assert driver.epochs() == (5, 5, {"a": 5, "b": 3})
    driver.send(request("a", 5, ["orders", "bills", "orders"], ORDERS_AND_BILLS))
    assert driver.epochs() == (5, 5, {"a": 5, "b": 3}), "the same topics in another order are no change"
    driver.leave("a")
    assert driver.epochs() == (6, 6, {"b": 3})
    driver.beat("b")
    assert driver.epochs() == (6, 6, {"b": 6})
    driver.leave("b")
    assert driver.epochs() == (7, 7, {})
    assert driver.group.metadata.group_state is GroupState.EMPTY
    driver.join("a")
    assert driver.epochs() == (8, 8, {"a": 8})


def test_every_member_gets_all_partitions_of_its_topics() -> None:
    driver = Driver()
    driver.join("a", ["orders"], ORDERS)
    driver.join("b", ["orders", "bills"], ORDERS_AND_BILLS)
    driver.initialize_all()
    assert driver.beat("a").assignment == ALL_ORDERS
    assert driver.beat("b").assignment == {"bills": ["id-bills", [0]], "orders": ["id-orders", [0, 1]]}


def test_full_request_gets_the_assignment_even_if_unchanged() -> None:
    driver = stable("a")
    response = driver.send(request("a", 3, ["orders"], ORDERS))
    assert response.assignment == ALL_ORDERS
    assert driver.last.records == ()


def test_a_rejoin_of_a_member_keeps_its_epoch_and_releases_nothing() -> None:
    driver = stable("a")
    response = driver.join("a")
    assert (response.member_epoch, response.assignment) == (3, ALL_ORDERS)
    assert (driver.last.records, driver.last.releases) == ((), ())


def test_member_without_subscriptions_stays_and_reads_nothing() -> None:
    driver = stable("a")
    response = driver.send(request("a", 3, []))
    assert (response.error_code, response.assignment, response.subscribed_topic_names) == (0, {}, ())
    assert driver.send(request("a", response.member_epoch, ["orders"], ORDERS)).assignment == ALL_ORDERS


def test_a_topic_without_metadata_is_subscribed_and_unassigned() -> None:
    driver = Driver()
    response = driver.join("a", ["unheard-of"], {})
    assert (response.error_code, response.heartbeat_interval_ms, response.assignment) == (0, 5_000, {})
    assert driver.group.metadata.members["a"].subscribed_topic_names == ("unheard-of",)
    driver.send(request("a", 2, None, {"unheard-of": TopicMetadata("id", 1)}))
    assert driver.group.metadata.partitions_with_status("id", INITIALIZING) == (0,)


def test_metadata_of_a_topic_nobody_subscribed_to_is_ignored() -> None:
    driver = Driver()
    driver.join("a", ["orders"], ORDERS_AND_BILLS)
    assert list(driver.group.metadata.share_partitions) == ["id-orders"]


def test_partitions_added_later_start_at_the_beginning() -> None:
    driver = stable("a")
    response = driver.send(request("a", 3, None, {"orders": TopicMetadata("id-orders", 4)}))
    assert set(driver.last.records) >= {share_partition(2, INITIALIZING, 4, 0), share_partition(3, INITIALIZING, 4, 0)}
    assert (response.member_epoch, response.heartbeat_interval_ms, response.assignment) == (3, 200, None)
    driver.initialize_all()
    response = driver.beat("a")
    assert (response.member_epoch, response.assignment) == (4, {"orders": ["id-orders", [0, 1, 2, 3]]})


def test_new_share_partition_uses_the_current_auto_offset_reset() -> None:
    earliest = dataclasses.replace(CONFIG, auto_offset_reset=AutoOffsetReset(OffsetResetStrategy.EARLIEST))
    driver = Driver(earliest)
    driver.join("a")
    driver.config = CONFIG
    driver.join("b", ["bills"], ORDERS_AND_BILLS)
    assert [
        r.auto_offset_reset for records in driver.group.metadata.share_partitions.values() for r in records.values()
    ] == [
        "earliest",
        "earliest",
        "latest",
    ]


def test_old_metadata_removes_no_partition_and_adds_no_other_topic() -> None:
    driver = stable("a")
    for metadata in (TopicMetadata("id-orders", 1), TopicMetadata("id-of-another", 9)):
        driver.send(request("a", 3, None, {"orders": metadata}))
        assert driver.last.records == ()


def test_a_topic_subscribed_again_keeps_its_share_partitions() -> None:
    driver = stable("a")
    driver.send(request("a", 3, [], {}))
    assert driver.group.metadata.members["a"].assignment == ()
    driver.send(request("a", 4, ["orders"], ORDERS))
    assert driver.group.metadata.share_partitions["id-orders"] == {
        0: share_partition(0, INITIALIZED, 2, -1),
        1: share_partition(1, INITIALIZED, 2, -1),
    }
    assert driver.last.response is not None
    assert driver.last.response.assignment == ALL_ORDERS


def test_rack_and_client_are_rows_but_no_reason_for_a_new_epoch() -> None:
    driver = stable("a")
    driver.send(request("a", 3, None, rack_id="rack-1"))
    assert [type(record) for record in driver.last.records] == [ShareGroupMemberRecord]
    assert driver.group.metadata.members["a"].rack_id == "rack-1"
    driver.beat("a")
    assert driver.group.metadata.members["a"].rack_id == "rack-1", "None means unchanged"
    assert driver.epochs() == (3, 3, {"a": 3})


def test_leave_releases_every_initialized_share_partition() -> None:
    driver = stable("a", "b")
    driver.leave("a")
    assert driver.last.releases == (ReleaseMember(GROUP, "a", 4, (TopicPartitions("orders", "id-orders", (0, 1)),)),)
    assert [record.is_tombstone for record in driver.last.records if isinstance(record, ShareGroupMemberRecord)] == [
        True
    ]
    driver.join("a")
    assert driver.group.metadata.members["a"].member_epoch > 4, "so that the release does no harm to the new member"


def test_leaving_releases_nothing_before_anything_is_initialized() -> None:
    driver = Driver()
    driver.join("a")
    driver.leave("a")
    assert driver.last.releases == ()


def test_members_past_their_session_deadline_leave_together() -> None:
    driver = stable("a", "b", "c")
    driver.now_ms += 1_000
    driver.beat("c")
    driver.now_ms += 43_999
    assert driver.group.next_deadline_ms == driver.now_ms + 1
    assert driver.expire() == CoordinatorResult(), "not before the deadline"
    driver.now_ms += 1
    result = driver.expire()
    assert [release.member_id for release in result.releases] == ["a", "b"]
    assert driver.epochs() == (6, 6, {"c": 5})
    assert driver.group.next_deadline_ms == driver.now_ms + 1_000
    assert driver.expire() == CoordinatorResult()


def test_a_heartbeat_past_the_deadline_but_before_expire_keeps_the_member() -> None:
    driver = stable("a")
    driver.now_ms += 100_000
    driver.beat("a")
    assert driver.expire().releases == ()
    assert list(driver.group.metadata.members) == ["a"]


def test_an_empty_group_has_no_deadline() -> None:
    driver = stable("a")
    driver.leave("a")
    assert driver.group.next_deadline_ms is None


def test_handlers_change_nothing_by_themselves() -> None:
    driver = stable("a", "b")
    more_orders = request("a", 4, None, {"orders": TopicMetadata("id-orders", 3)})
    driver.send(more_orders)
    before = driver.group.dump()
    even_more_orders = replace(more_orders, topics={"orders": TopicMetadata("id-orders", 4)})
    assert driver.group.heartbeat(even_more_orders, driver.now_ms, CONFIG).records
    assert driver.group.handle_initialized([("id-orders", 2, 5)], driver.now_ms).records
    assert driver.group.heartbeat(request("c", 0, ["bills"], ORDERS_AND_BILLS), driver.now_ms, CONFIG).records
    assert driver.group.heartbeat(request("a", -1), driver.now_ms, CONFIG).records
    assert driver.group.expire(driver.now_ms + 100_000).records
    assert driver.group.dump() == before
