"""A member's heartbeats: when one is due, and what its response changes."""

import itertools

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.member.membership import RESPONSE_TIMEOUT_MS, RETRY_MS, UNASSIGNED_INTERVAL_MS, Membership
from sharegroup.member.ranges import AssignedPartition
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse

METADATA = {"t": TopicMetadata("id", 2)}
INTERVAL_MS = 5_000


@pytest.fixture
def member() -> Membership:
    return Membership("g", "m", ("t",), "client", "host", map(str, itertools.count()), "p1")


def answer(
    request: HeartbeatRequest, epoch: int = 3, partitions: list[int] | None = None, code: int = ErrorCode.NONE
) -> HeartbeatResponse:
    assignment = None if partitions is None else {"t": ["id", partitions]}
    return HeartbeatResponse(
        request.id, "m", "g", code, "why", member_id="m", member_epoch=epoch, heartbeat_interval_ms=INTERVAL_MS,
        assignment=assignment,
    )  # fmt: skip


def beat(member: Membership, now_ms: int) -> HeartbeatRequest:
    request = member.heartbeat(METADATA, now_ms)
    assert request is not None
    return request


def joined(member: Membership) -> Membership:
    member.handle_response(answer(beat(member, 0), partitions=[0, 1]), 0)
    return member


def test_a_join_sends_topics_and_receives_the_assignment(member: Membership) -> None:
    join = beat(member, 0)
    assert (join.member_epoch, join.subscribed_topic_names, join.topics) == (0, ("t",), METADATA)
    assert (join.reply_to, join.client_id, join.client_host) == ("m", "client", "host")
    member.handle_response(answer(join, partitions=[0, 1]), 10)
    assert (member.has_joined, member.member_epoch) == (True, 3)
    assert member.assignment == {AssignedPartition("t", "id", 0), AssignedPartition("t", "id", 1)}


def test_heartbeats_follow_the_coordinators_interval(member: Membership) -> None:
    joined(member)
    assert member.heartbeat(METADATA, INTERVAL_MS - 1) is None
    request = beat(member, INTERVAL_MS)
    assert (request.member_epoch, request.subscribed_topic_names) == (3, None)
    member.handle_response(answer(request, epoch=4), INTERVAL_MS)
    assert (member.member_epoch, len(member.assignment)) == (4, 2)  # no assignment in the response: it did not change


def test_a_change_is_sent_immediately(member: Membership) -> None:
    joined(member)
    assert member.heartbeat(METADATA, 1) is None
    member.schedule_now(1)
    request = beat(member, 1)
    assert request.topics == METADATA
    assert member.heartbeat(METADATA, 2) is None


def test_heartbeats_are_earlier_while_nothing_is_assigned(member: Membership) -> None:
    member.handle_response(answer(beat(member, 0), partitions=[]), 0)
    assert member.heartbeat(METADATA, UNASSIGNED_INTERVAL_MS - 1) is None
    assert member.heartbeat(METADATA, UNASSIGNED_INTERVAL_MS) is not None


def test_a_late_response_of_a_slow_coordinator_counts(member: Membership) -> None:
    first = beat(member, 0)
    second = beat(member, RESPONSE_TIMEOUT_MS)
    member.handle_response(answer(first, partitions=[0]), RESPONSE_TIMEOUT_MS + 1)
    assert member.has_joined
    member.handle_response(answer(second, epoch=5), RESPONSE_TIMEOUT_MS + 2)
    assert member.member_epoch == 5
    assert not member.handle_response(answer(second, epoch=9), RESPONSE_TIMEOUT_MS + 3)  # a repeated response
    assert member.member_epoch == 5


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_joins_again(member: Membership, code: ErrorCode) -> None:
    joined(member)
    assert member.handle_response(answer(beat(member, INTERVAL_MS), code=code), INTERVAL_MS)
    assert member.assignment == frozenset()
    again = beat(member, INTERVAL_MS)
    assert (again.member_epoch, again.subscribed_topic_names) == (0, ("t",))


def test_a_fence_of_an_earlier_epoch_is_ignored(member: Membership) -> None:
    joined(member)
    old = beat(member, INTERVAL_MS)
    new = beat(member, INTERVAL_MS + RESPONSE_TIMEOUT_MS)
    member.handle_response(answer(new, epoch=4), 20_000)
    assert not member.handle_response(answer(old, code=ErrorCode.FENCED_MEMBER_EPOCH), 20_001)
    assert (member.member_epoch, len(member.assignment)) == (4, 2)


def test_temporary_errors_are_retried_and_others_are_fatal(member: Membership) -> None:
    member.handle_response(answer(beat(member, 0), code=ErrorCode.GROUP_MAX_SIZE_REACHED), 0)
    assert member.fatal is None
    request = beat(member, RETRY_MS)
    member.handle_response(answer(request, code=ErrorCode.INVALID_REQUEST), RETRY_MS)
    assert member.fatal is not None
    assert member.fatal.code is ErrorCode.INVALID_REQUEST
    assert member.heartbeat(METADATA, 1_000_000) is None


def test_a_leave_ends_the_membership(member: Membership) -> None:
    joined(member)
    leaving = member.leave()
    assert leaving is not None
    assert leaving.member_epoch == -1
    assert member.heartbeat(METADATA, 1_000_000) is None
    member.handle_response(answer(leaving, epoch=-1), 0)
    assert member.left


def test_a_member_that_never_joined_has_left_immediately(member: Membership) -> None:
    assert member.leave() is None
    assert member.left
