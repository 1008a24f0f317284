"""Standing demands: one for each share-partition, and how much they ask for."""

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


def test_at_first_each_share_partition_is_asked_for_an_even_share(demands: FetchDemands) -> None:
    requests = demands.due(ASSIGNMENT, 0, EPOCH, 0)
    assert asked(requests) == dict.fromkeys(range(4), 250)
    assert {(r.type, r.member_epoch, r.max_wait_ms, r.reply_to) for r in requests} == {("fetch", EPOCH, WAIT_MS, "m")}
    assert demands.due(ASSIGNMENT, 0, EPOCH, 1) == []


def test_what_was_granted_is_told_once(demands: FetchDemands) -> None:
    request = demands.due(ASSIGNMENT, 0, EPOCH, 0)[0]
    response = answer(request, (0, 9), (20, 29))
    assert demands.take(response, 1) == (HeldRange("t", "id", 0, 0, 9, 1, 99), HeldRange("t", "id", 0, 20, 29, 1, 99))
    assert demands.take(response, 2) == ()


def test_a_grant_is_to_be_read_as_the_group_reads(demands: FetchDemands) -> None:
    one, two, *_ = demands.due(ASSIGNMENT, 0, EPOCH, 0)
    assert [held.read_committed for held in demands.take(answer(one, (0, 9)), 1)] == [False]
    committed = replace(answer(two, (0, 9)), read_committed=True)
    assert [held.read_committed for held in demands.take(committed, 1)] == [True]


def test_the_busy_share_partition_gets_all_the_room(demands: FetchDemands) -> None:
    for request in demands.due(ASSIGNMENT, 0, EPOCH, 0):
        if request.partition == 2:
            demands.take(answer(request, (0, 249)), 1)
    assert asked(demands.due(ASSIGNMENT, 250, EPOCH, 2)) == {2: 750}


def test_nothing_is_asked_for_while_enough_is_held(demands: FetchDemands) -> None:
    for request in demands.due(ASSIGNMENT, 0, EPOCH, 0):
        demands.take(answer(request, (0, 249)), 1)
    assert demands.due(ASSIGNMENT, TARGET, EPOCH, 2) == []
    assert demands.due(ASSIGNMENT, 900, EPOCH, 3) == []  # too little room to be worth a request
    assert asked(demands.due(ASSIGNMENT, 500, EPOCH, 4)) == dict.fromkeys(range(4), 125)


def test_an_answer_with_nothing_makes_it_ask_again(demands: FetchDemands) -> None:
    request = demands.due(ASSIGNMENT, 0, EPOCH, 0)[0]
    demands.take(answer(request), WAIT_MS)
    assert asked(demands.due(ASSIGNMENT, 0, EPOCH, WAIT_MS)) == {0: 250}


def test_a_lost_demand_is_replaced_and_its_late_answer_still_counts(demands: FetchDemands) -> None:
    first = demands.due(ASSIGNMENT, 0, EPOCH, 0)[0]
    assert demands.due(ASSIGNMENT, 0, EPOCH, WAIT_MS + GRACE_MS - 1) == []
    again = demands.due(ASSIGNMENT, 0, EPOCH, WAIT_MS + GRACE_MS)
    assert len(again) == 4
    assert demands.take(answer(first, (0, 9)), 40_000)
    assert demands.take(answer(again[0], (10, 19)), 40_001)


def test_a_refused_demand_is_repeated_after_a_pause(demands: FetchDemands) -> None:
    request = demands.due(ASSIGNMENT, 0, EPOCH, 0)[0]
    demands.take(answer(request, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 5)
    assert demands.due(ASSIGNMENT, 0, EPOCH, 5 + RETRY_MS - 1) == []
    assert asked(demands.due(ASSIGNMENT, 0, EPOCH, 5 + RETRY_MS)) == {0: 250}


def test_a_share_partition_that_is_taken_away_is_not_asked_again_but_its_answer_is_taken(demands: FetchDemands) -> None:
    request = demands.due(ASSIGNMENT, 0, EPOCH, 0)[0]
    fewer = ASSIGNMENT - {AssignedPartition("t", "id", 0)}
    assert demands.due(fewer, 0, EPOCH, 1) == []
    assert len(demands.take(answer(request, (0, 9)), 2)) == 1
    assert demands.due(fewer, 0, EPOCH, 3) == []


def test_after_a_fence_late_answers_grant_nothing(demands: FetchDemands) -> None:
    request = demands.due(ASSIGNMENT, 0, EPOCH, 0)[0]
    demands.forget()
    assert demands.take(answer(request, (0, 9)), 1) == ()
    assert len(demands.due(ASSIGNMENT, 0, EPOCH, 1)) == 4
