"""A member's fetches: one for each share-partition, and the number of records that they request."""

import itertools
from dataclasses import replace

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.member.fetch_demands import GRACE_MS, RETRY_MS, FetchDemands
from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.types import AcquiredRange

ASSIGNMENT = {AssignedPartition("t", "id", partition) for partition in range(4)}
TARGET = 1_000
WAIT_MS = 10_000
EPOCH = 3


@pytest.fixture
def demands() -> FetchDemands:
    return FetchDemands("g", "m", TARGET, WAIT_MS, map(str, itertools.count()))


def answer(request: FetchRequest, *ranges: tuple[int, int], code: int = 0) -> FetchResponse:
    acquired = tuple(AcquiredRange(first, last, 1) for first, last in ranges)
    who = "m", "g", request.topic, request.topic_id, request.partition, "m"
    return FetchResponse(request.id, *who, code, "why", acquired=acquired, lock_deadline_ms=99)


def asked(requests: list[FetchRequest]) -> dict[int, int]:
    return {request.partition: request.max_records for request in requests}


def test_first_fetches_request_an_even_share(demands: FetchDemands) -> None:
    requests = demands.due_requests(ASSIGNMENT, 0, EPOCH, 0)
    assert asked(requests) == dict.fromkeys(range(4), 250)
    assert {(r.type, r.member_epoch, r.max_wait_ms, r.reply_to) for r in requests} == {("fetch", EPOCH, WAIT_MS, "m")}
    assert demands.due_requests(ASSIGNMENT, 0, EPOCH, 1) == []


def test_acquired_ranges_are_returned_once(demands: FetchDemands) -> None:
    request = demands.due_requests(ASSIGNMENT, 0, EPOCH, 0)[0]
    response = answer(request, (0, 9), (20, 29))
    assert demands.handle_response(response, 1) == (
        HeldRange("t", "id", 0, 0, 9, 1, 99),
        HeldRange("t", "id", 0, 20, 29, 1, 99),
    )
    assert demands.handle_response(response, 2) == ()


def test_acquired_ranges_have_the_groups_isolation_level(demands: FetchDemands) -> None:
    one, two, *_ = demands.due_requests(ASSIGNMENT, 0, EPOCH, 0)
    assert [held.read_committed for held in demands.handle_response(answer(one, (0, 9)), 1)] == [False]
    committed = replace(answer(two, (0, 9)), read_committed=True)
    assert [held.read_committed for held in demands.handle_response(committed, 1)] == [True]


def test_the_busy_share_partition_gets_all_the_room(demands: FetchDemands) -> None:
    for request in demands.due_requests(ASSIGNMENT, 0, EPOCH, 0):
        if request.partition == 2:
            demands.handle_response(answer(request, (0, 249)), 1)
    assert asked(demands.due_requests(ASSIGNMENT, 250, EPOCH, 2)) == {2: 750}


def test_no_fetch_while_enough_is_held(demands: FetchDemands) -> None:
    for request in demands.due_requests(ASSIGNMENT, 0, EPOCH, 0):
        demands.handle_response(answer(request, (0, 249)), 1)
    assert demands.due_requests(ASSIGNMENT, TARGET, EPOCH, 2) == []
    assert demands.due_requests(ASSIGNMENT, 900, EPOCH, 3) == []  # too little room for a request
    assert asked(demands.due_requests(ASSIGNMENT, 500, EPOCH, 4)) == dict.fromkeys(range(4), 125)


def test_an_empty_response_is_followed_by_a_fetch(demands: FetchDemands) -> None:
    request = demands.due_requests(ASSIGNMENT, 0, EPOCH, 0)[0]
    demands.handle_response(answer(request), WAIT_MS)
    assert asked(demands.due_requests(ASSIGNMENT, 0, EPOCH, WAIT_MS)) == {0: 250}


def test_a_lost_fetch_is_replaced_and_its_late_response_counts(demands: FetchDemands) -> None:
    first = demands.due_requests(ASSIGNMENT, 0, EPOCH, 0)[0]
    assert demands.due_requests(ASSIGNMENT, 0, EPOCH, WAIT_MS + GRACE_MS - 1) == []
    again = demands.due_requests(ASSIGNMENT, 0, EPOCH, WAIT_MS + GRACE_MS)
    assert len(again) == 4
    assert demands.handle_response(answer(first, (0, 9)), 40_000)
    assert demands.handle_response(answer(again[0], (10, 19)), 40_001)


def test_a_rejected_fetch_is_repeated_after_a_pause(demands: FetchDemands) -> None:
    request = demands.due_requests(ASSIGNMENT, 0, EPOCH, 0)[0]
    demands.handle_response(answer(request, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 5)
    assert demands.due_requests(ASSIGNMENT, 0, EPOCH, 5 + RETRY_MS - 1) == []
    assert asked(demands.due_requests(ASSIGNMENT, 0, EPOCH, 5 + RETRY_MS)) == {0: 250}


def test_response_of_a_revoked_share_partition_still_counts(demands: FetchDemands) -> None:
    request = demands.due_requests(ASSIGNMENT, 0, EPOCH, 0)[0]
    fewer = ASSIGNMENT - {AssignedPartition("t", "id", 0)}
    assert demands.due_requests(fewer, 0, EPOCH, 1) == []
    assert len(demands.handle_response(answer(request, (0, 9)), 2)) == 1
    assert demands.due_requests(fewer, 0, EPOCH, 3) == []


def test_late_responses_acquire_nothing_after_a_fence(demands: FetchDemands) -> None:
    request = demands.due_requests(ASSIGNMENT, 0, EPOCH, 0)[0]
    demands.discard_all()
    assert demands.handle_response(answer(request, (0, 9)), 1) == ()
    assert len(demands.due_requests(ASSIGNMENT, 0, EPOCH, 1)) == 4
