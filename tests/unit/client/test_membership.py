"""Heartbeats of a member of a share group."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from sharegroup.client.core.membership import Membership
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.messages import ShareGroupHeartbeatResponse

TOPIC = UUID(int=7)
INTERVAL_MS, POLL_INTERVAL_MS = 5_000, 300_000


def new_member(*topics: str) -> Membership:
    member = Membership("group", "member", "", retry_ms=100, max_poll_interval_ms=POLL_INTERVAL_MS)
    member.subscribe(topics or ("orders",))
    member.note_poll(0)
    return member


def answer(epoch: int = 1, code: int = 0, partitions: list[int] | None = None) -> ShareGroupHeartbeatResponse:
    response = ShareGroupHeartbeatResponse
    assignment: Any = None
    if partitions is not None:
        topic = response.Assignment.TopicPartitions(topic_id=TOPIC, partitions=partitions)
        assignment = response.Assignment(topic_partitions=[topic])
    return response(
        throttle_time_ms=0, error_code=code, error_message="why" if code else None, member_id="member",
        member_epoch=epoch, heartbeat_interval_ms=INTERVAL_MS, assignment=assignment,
    )  # fmt: skip


def joined(*topics: str) -> Membership:
    member = new_member(*topics)
    assert member.heartbeat(0) is not None
    member.on_response(answer(partitions=[0, 1]), 0)
    return member


def test_first_heartbeat_joins_with_all_topics() -> None:
    member = new_member("orders", "bills")
    request = member.heartbeat(0)
    assert request is not None
    assert (request.member_epoch, request.subscribed_topic_names) == (0, ["bills", "orders"])


def test_assignment_of_a_response_is_kept_until_another() -> None:
    member = joined()
    assert member.assignment == {TOPIC: (0, 1)}
    member.heartbeat(INTERVAL_MS)
    member.on_response(answer(epoch=2), INTERVAL_MS)
    assert (member.assignment, member.epoch, member.generation) == ({TOPIC: (0, 1)}, 2, 1)


def test_next_heartbeat_is_due_after_the_interval() -> None:
    member = joined()
    assert member.heartbeat(INTERVAL_MS - 1) is None
    request = member.heartbeat(INTERVAL_MS)
    assert request is not None
    assert (request.member_epoch, request.subscribed_topic_names) == (1, None)


def test_changed_subscription_is_sent_at_once() -> None:
    member = joined()
    member.subscribe(["bills"])
    request = member.heartbeat(1)
    assert request is not None
    assert request.subscribed_topic_names == ["bills"]
    member.subscribe(["refunds"])  # while the heartbeat is in progress
    member.on_response(answer(epoch=2), 2)
    request = member.heartbeat(2)
    assert request is not None
    assert request.subscribed_topic_names == ["refunds"]


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_fenced_member_joins_again_at_once(code: ErrorCode) -> None:
    member = joined()
    member.heartbeat(INTERVAL_MS)
    member.on_response(answer(code=code), INTERVAL_MS)
    assert member.assignment == {}
    request = member.heartbeat(INTERVAL_MS)
    assert request is not None
    assert (request.member_id, request.member_epoch, request.subscribed_topic_names) == ("member", 0, ["orders"])


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_coordinator_that_moved_is_looked_up_again(code: ErrorCode) -> None:
    member = joined()
    member.is_coordinator_stale = False
    member.heartbeat(INTERVAL_MS)
    member.on_response(answer(code=code), INTERVAL_MS)
    assert member.is_coordinator_stale
    assert member.due_ms == INTERVAL_MS + 100
    assert member.assignment == {TOPIC: (0, 1)}


def test_loading_coordinator_is_asked_again_later() -> None:
    member = joined()
    member.is_coordinator_stale = False
    member.heartbeat(INTERVAL_MS)
    member.on_response(answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), INTERVAL_MS)
    assert (member.is_coordinator_stale, member.due_ms) == (False, INTERVAL_MS + 100)


def test_lost_heartbeat_is_repeated() -> None:
    member = joined()
    member.heartbeat(INTERVAL_MS)
    member.on_lost(INTERVAL_MS)
    assert member.is_coordinator_stale
    assert member.heartbeat(INTERVAL_MS + 100) is not None


def test_refused_member_raises_its_error_at_each_poll() -> None:
    member = new_member()
    member.heartbeat(0)
    member.on_response(answer(code=ErrorCode.GROUP_AUTHORIZATION_FAILED), 0)
    assert member.due_ms is None
    for _ in range(2):
        with pytest.raises(RequestError, match="GROUP_AUTHORIZATION_FAILED: why"):
            member.raise_problem()


def test_refused_topic_is_reported_once_and_asked_for_again() -> None:
    member = new_member()
    member.heartbeat(0)
    member.on_response(answer(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), 0)
    with pytest.raises(RequestError, match="TOPIC_AUTHORIZATION_FAILED"):
        member.raise_problem()
    member.raise_problem()
    assert member.heartbeat(INTERVAL_MS) is not None


def test_member_that_does_not_poll_leaves_until_it_polls() -> None:
    member = joined()
    late_ms = POLL_INTERVAL_MS + 1
    request = member.heartbeat(late_ms)
    assert request is not None
    assert request.member_epoch == -1
    member.on_response(answer(epoch=-1), late_ms)
    assert (member.due_ms, member.assignment) == (None, {})
    member.note_poll(late_ms + 5)
    request = member.heartbeat(late_ms + 5)
    assert request is not None
    assert request.member_epoch == 0


def test_leaving_sends_the_epoch_of_a_leave_once() -> None:
    member = joined()
    request = member.leave()
    assert request is not None
    assert request.member_epoch == -1
    assert member.leave() is None
