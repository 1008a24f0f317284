"""Static members (KIP-345): identity and incarnation. A rejection changes nothing."""

from __future__ import annotations

import dataclasses

import pytest

from sharegroup.core.group_coordinator import CoordinatorResult, ReleaseMember, ShareGroup
from sharegroup.core.group_coordinator.records import TopicPartitions
from sharegroup.core.group_coordinator.results import FenceMember
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from tests.unit.core.group_coordinator.driver import CONFIG, GROUP, ORDERS, Driver, request

ALL_ORDERS = {"orders": ["id-orders", [0, 1]]}
STATIC_SESSION_MS = 300_000


def join(driver: Driver, process: str, name: str = "worker-1", member_id: str = "", id_: str = "") -> HeartbeatResponse:
    row = request(member_id, 0, ["orders"], ORDERS, instance=name, incarnation=process, id_=id_ or f"join-{process}")
    return driver.send(row)


def beat(driver: Driver, process: str, name: str = "worker-1", epoch: int | None = None) -> HeartbeatResponse:
    """Send a heartbeat with the member's id, and its epoch if no other is given."""
    member = driver.group.metadata.members[driver.group.metadata.static_members[name]]
    known = member.member_epoch if epoch is None else epoch
    return driver.send(request(member.member_id, known, instance=name, incarnation=process))


def stable(process: str = "p1") -> tuple[Driver, str]:
    """Return a group with one static member that has received its assignment, and the member's id."""
    driver = Driver()
    member_id = join(driver, process).member_id
    driver.initialize_all()
    assert beat(driver, process).assignment == ALL_ORDERS
    return driver, member_id


def refused(driver: Driver, row: HeartbeatRequest) -> tuple[ErrorCode, str | None]:
    before = driver.group.dump()
    response = driver.send(row)
    assert driver.group.dump() == before
    assert driver.last._replace(response=None) == CoordinatorResult()
    return ErrorCode(response.error_code), response.error_message


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (request("", 0, ["orders"], instance="", incarnation="p"), "InstanceId can't be empty."),
        (request("", 0, ["orders"], instance="n", incarnation=" "), "IncarnationId can't be empty."),
        (request("", 0, ["orders"], instance="n"), "IncarnationId must be set for a static member."),
        (request(" ", 1, instance="n", incarnation="p"), "MemberId can't be empty."),
        (request("m", -3, instance="n", incarnation="p"), "MemberEpoch is invalid."),
        (request("m", -2, incarnation="p"), "MemberEpoch is invalid."),
    ],
)
def test_an_invalid_request(row: HeartbeatRequest, message: str) -> None:
    assert refused(Driver(), row) == (ErrorCode.INVALID_REQUEST, message)


def test_a_new_name_gets_an_id_that_the_same_request_gets_again() -> None:
    ids = {join(Driver(), "p1").member_id for _ in range(2)}
    assert {len(member_id) for member_id in ids} == {32}
    assert len(ids) == 1
    assert join(Driver(), "p1", name="worker-2").member_id not in ids


def test_rejoin_keeps_id_epoch_and_assignment_and_releases_nothing() -> None:
    driver, member_id = stable()
    epoch = driver.group.metadata.members[member_id].member_epoch
    response = join(driver, "p2")
    assert (response.member_id, response.member_epoch, response.assignment) == (member_id, epoch, ALL_ORDERS)
    assert driver.last.releases == ()
    assert list(driver.group.metadata.members) == [member_id]


def test_join_of_a_new_process_fences_the_previous_one() -> None:
    driver, member_id = stable()
    join(driver, "p2")
    told = f"This process is no longer member {member_id}: another process has joined as this member."
    for epoch in (driver.group.metadata.members[member_id].member_epoch, -1, -2):
        row = request(member_id, epoch, instance="worker-1", incarnation="p1")
        assert refused(driver, row) == (ErrorCode.FENCED_INSTANCE_ID, told)
    assert beat(driver, "p2").error_code == ErrorCode.NONE


def test_fence_is_sent_to_share_partitions_without_an_epoch_change() -> None:
    driver, member_id = stable()
    epochs = driver.epochs()
    driver.now_ms += 7
    join(driver, "p2")
    topics = tuple(driver.group.metadata.assignable_topics().values())
    assert topics
    assert driver.last.fence == FenceMember(GROUP, member_id, "p2", driver.now_ms, topics)
    assert driver.epochs() == epochs


def test_a_member_remembers_when_its_process_took_another_ones_place() -> None:
    driver, member_id = stable()
    assert driver.group.metadata.members[member_id].joined_ms is None
    driver.now_ms += 7
    join(driver, "p2")
    joined_ms = driver.now_ms
    driver.now_ms += 7
    join(driver, "p2", id_="again")
    beat(driver, "p2")
    restored = ShareGroup.restore(GROUP, driver.group.dump())
    for group in (driver.group, restored):
        assert group.metadata.members[member_id].joined_ms == joined_ms


@pytest.mark.parametrize(("read_after_ms", "is_fenced"), [(0, True), (-1, False)])
def test_join_that_is_read_late_replaces_no_later_process(read_after_ms: int, is_fenced: bool) -> None:
    """A join that seems to be in the future has the time of a wrong clock, and rejects nothing."""
    driver, member_id = stable()
    driver.now_ms += 7
    join(driver, "p3")
    late = request(member_id, 0, ["orders"], ORDERS, instance="worker-1", incarnation="p2")
    result = driver.group.heartbeat(late, driver.now_ms + read_after_ms, driver.config, driver.now_ms - 1)
    assert result.response is not None
    assert result.response.error_code == (ErrorCode.FENCED_INSTANCE_ID if is_fenced else ErrorCode.NONE)
    assert (result.records == ()) == is_fenced


@pytest.mark.parametrize("process", ["p1", "p2"])
def test_new_member_sends_no_fence(process: str) -> None:
    driver, _ = stable()
    join(driver, process, name="worker-2")
    assert driver.last.fence is None


def test_process_that_left_for_a_restart_is_fenced() -> None:
    driver, member_id = stable()
    driver.send(request(member_id, -2, instance="worker-1", incarnation="p1"))
    assert driver.last.fence is None
    join(driver, "p2")
    assert driver.last.fence is not None


def test_static_member_is_released_through_any_requester() -> None:
    driver, member_id = stable()
    leaving = request(member_id, -1, instance="worker-1", incarnation="p1")
    driver.send(dataclasses.replace(leaving, reply_to="gateway-2"))
    assert [release.topics for release in driver.last.releases] == [(TopicPartitions("orders", "id-orders", (0, 1)),)]


def test_repeated_join_of_a_process_sends_no_fence() -> None:
    driver, member_id = stable()
    before = driver.group.dump()
    assert join(driver, "p1", id_="again").member_id == member_id
    assert driver.last.fence is None
    assert driver.last.records == ()
    assert driver.group.dump() == before


@pytest.mark.parametrize("epoch", [0, 2, -1, -2])
def test_a_known_name_with_another_id_is_fenced(epoch: int) -> None:
    driver, _ = stable()
    told = "MEMBER_ID_MISMATCH: other is not the member id of group instance id worker-1."
    row = request("other", epoch, ["orders"], instance="worker-1", incarnation="p1")
    assert refused(driver, row) == (ErrorCode.FENCED_INSTANCE_ID, told)


def test_a_process_may_leave_its_id_to_the_coordinator_in_each_heartbeat() -> None:
    driver, member_id = stable()
    epoch = driver.group.metadata.members[member_id].member_epoch
    response = driver.send(request("", epoch, instance="worker-1", incarnation="p1"))
    assert (response.error_code, response.member_id, response.member_epoch) == (ErrorCode.NONE, member_id, epoch)
    assert refused(driver, request("", epoch, instance="unknown", incarnation="p"))[0] == ErrorCode.UNKNOWN_MEMBER_ID
    fenced = request("", epoch, instance="worker-1", incarnation="p0")
    assert refused(driver, fenced)[0] == ErrorCode.FENCED_INSTANCE_ID
    left = driver.send(request("", -1, instance="worker-1", incarnation="p1"))
    assert (left.member_id, left.member_epoch) == (member_id, -1)
    assert not driver.group.metadata.members


def test_a_new_name_may_bring_its_id_but_not_another_members() -> None:
    driver = Driver()
    driver.join("dynamic")
    told = "DUPLICATE_STATIC_MEMBER: worker-1 is new, but member id dynamic is already in use."
    row = request("dynamic", 0, ["orders"], ORDERS, instance="worker-1", incarnation="p1")
    assert refused(driver, row) == (ErrorCode.FENCED_INSTANCE_ID, told)
    assert join(driver, "p1", member_id="mine").member_id == "mine"
    assert join(driver, "p2").member_id == join(driver, "p3", member_id="mine").member_id == "mine"


@pytest.mark.parametrize("epoch", [0, 3, -1])
def test_the_id_of_a_static_member_is_of_no_use_without_its_name(epoch: int) -> None:
    driver, member_id = stable()
    told = f"Member {member_id} does not belong to group instance id None."
    row = request(member_id, epoch, ["orders"], incarnation="p1")
    assert refused(driver, row) == (ErrorCode.FENCED_INSTANCE_ID, told)


def test_a_static_member_that_stays_has_to_be_known() -> None:
    driver, member_id = stable()
    told = (ErrorCode.UNKNOWN_MEMBER_ID, f"Member m is not a member of group {GROUP}.")
    assert refused(driver, request("m", 2, instance="worker-2", incarnation="p")) == told
    assert refused(driver, request(member_id, 2, instance="worker-2", incarnation="p"))[0] is (
        ErrorCode.FENCED_INSTANCE_ID
    )


def test_a_stale_epoch_is_fenced_as_that_of_any_member() -> None:
    driver, member_id = stable()
    row = request(member_id, 7, instance="worker-1", incarnation="p1")
    assert refused(driver, row)[0] is ErrorCode.FENCED_MEMBER_EPOCH


def test_its_session_is_as_long_as_that_of_static_members() -> None:
    driver, member_id = stable()
    driver.join("dynamic")
    deadlines = driver.group.metadata.session_deadlines
    assert deadlines == {member_id: driver.now_ms + STATIC_SESSION_MS, "dynamic": driver.now_ms + 45_000}
    driver.now_ms += STATIC_SESSION_MS - 1
    driver.expire()
    assert list(driver.group.metadata.members) == [member_id]
    driver.now_ms += 1
    assert [release.member_id for release in driver.expire().releases] == [member_id]
    assert driver.group.metadata.static_members == {}


def test_left_for_a_restart_it_stays_a_member_for_one_more_session() -> None:
    driver, member_id = stable()
    epoch = driver.group.metadata.members[member_id].member_epoch
    driver.now_ms += 10_000
    response = driver.send(request(member_id, -2, instance="worker-1", incarnation="p1"))
    assert (response.error_code, response.member_epoch) == (0, -2)
    assert driver.last.releases == ()
    assert driver.group.metadata.members[member_id].incarnation_id == ""
    assert driver.group.next_deadline_ms == driver.now_ms + STATIC_SESSION_MS

    gone = f"This process is no longer member {member_id}: it has left for a restart."
    row = request(member_id, epoch, instance="worker-1", incarnation="p1")
    assert refused(driver, row) == (ErrorCode.FENCED_INSTANCE_ID, gone)
    back = join(driver, "p2")
    assert (back.member_id, back.member_epoch, back.assignment) == (member_id, epoch, ALL_ORDERS)


def test_permanent_leave_removes_the_member_and_releases_records() -> None:
    driver, member_id = stable()
    epoch = driver.group.metadata.members[member_id].member_epoch
    driver.send(request(member_id, -1, instance="worker-1", incarnation="p1"))
    (release,) = driver.last.releases
    assert release[:3] == ReleaseMember(GROUP, member_id, epoch, ())[:3]
    again = join(driver, "p2")
    assert again.member_id != member_id
    assert again.member_epoch > epoch


def test_full_group_accepts_known_instance_ids_only() -> None:
    driver, member_id = stable()
    driver.join("a")
    driver.join("b")
    assert join(driver, "p2").member_id == member_id
    assert join(driver, "p3", name="worker-2").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_of_two_processes_with_one_dynamic_id_the_latest_to_join_is_served() -> None:
    driver = Driver()
    driver.send(request("d", 0, ["orders"], ORDERS, incarnation="p1"))
    driver.send(request("d", 0, ["orders"], ORDERS, incarnation="p2"))
    epoch = driver.group.metadata.members["d"].member_epoch
    told = "This process is no longer member d: another process has joined as this member."
    assert refused(driver, request("d", epoch, incarnation="p1")) == (ErrorCode.FENCED_INSTANCE_ID, told)
    assert refused(driver, request("d", -1, incarnation="p1")) == (ErrorCode.FENCED_INSTANCE_ID, told)
    assert driver.send(request("d", epoch, incarnation="p2")).error_code == ErrorCode.NONE


def test_incarnation_id_may_be_sent_later() -> None:
    driver = Driver()
    driver.join("d")
    assert driver.send(request("d", 2, incarnation="p1")).error_code == ErrorCode.NONE
    assert driver.group.metadata.members["d"].incarnation_id == "p1"
    assert driver.send(request("d", 2)).error_code == ErrorCode.NONE
    assert refused(driver, request("d", 2, incarnation="p2"))[0] is ErrorCode.FENCED_INSTANCE_ID


def test_recovery_restores_instance_id_incarnation_and_session() -> None:
    driver, member_id = stable()
    before = driver.group.metadata.members[member_id]
    driver.group = ShareGroup.load(GROUP, driver.group_tables(), driver.now_ms, CONFIG)
    after = driver.group.metadata
    assert after.members[member_id] == before._replace(previous_member_epoch=-1)
    assert after.static_members == {"worker-1": member_id}
    assert after.session_deadlines == {member_id: driver.now_ms + STATIC_SESSION_MS}
    assert refused(driver, request(member_id, 3, instance="worker-1", incarnation="p0"))[0] is (
        ErrorCode.FENCED_INSTANCE_ID
    )


def test_shorter_timeout_does_not_shorten_a_running_session() -> None:
    driver, member_id = stable()
    driver.config = dataclasses.replace(CONFIG, static_session_timeout_ms=45_000)
    beat(driver, "p1")
    assert driver.group.metadata.session_deadlines[member_id] == driver.now_ms + STATIC_SESSION_MS
