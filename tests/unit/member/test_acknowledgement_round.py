"""Acknowledgement rows: sent once, again without a response, in parts if rejected."""

import itertools
import json
from dataclasses import replace

from sharegroup.errors import ErrorCode
from sharegroup.member.acknowledgement_round import (
    PARTS,
    RESPONSE_TIMEOUT_MS,
    RETRY_MS,
    AcknowledgementRound,
    uniform_batches,
)
from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.protocol.rows.row_fields import MAX_DELIVERY_COUNT, MAX_OFFSET
from sharegroup.protocol.rows.share_partition_requests import MAX_RANGES_PER_ROW, AcknowledgeRequest
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

P0, P1 = AssignedPartition("t", "id", 0), AssignedPartition("t", "id", 1)
EPOCH = 7


def held(where: AssignedPartition, first: int, last: int, count: int = 1) -> HeldRange:
    return HeldRange(*where, first, last, count, 0)


def a_round(*ranges: tuple[AssignedPartition, int, int], is_renewal: bool = False) -> AcknowledgementRound:
    return round_of(*(held(*item) for item in ranges), is_renewal=is_renewal)


def round_of(*ranges: HeldRange, is_renewal: bool = False) -> AcknowledgementRound:
    batches = uniform_batches(ranges, AcknowledgeType.RENEW if is_renewal else AcknowledgeType.ACCEPT)
    return AcknowledgementRound("g", "m", batches, ranges, map(str, itertools.count()), is_renewal)


def answer(request: AcknowledgeRequest, code: int = 0, deadline_ms: int = -1) -> AcknowledgeResponse:
    who = "m", "g", request.topic, request.topic_id, request.partition, "m"
    return AcknowledgeResponse(request.id, *who, code, lock_deadline_ms=deadline_ms)


def test_a_row_for_each_share_partition() -> None:
    sent = a_round((P0, 0, 9), (P0, 10, 19), (P1, 5, 5)).due_requests(EPOCH, 0)
    assert [(r.partition, r.batches) for r in sent] == [
        (0, (AcknowledgementBatch(0, 9, (1,)), AcknowledgementBatch(10, 19, (1,)))),
        (1, (AcknowledgementBatch(5, 5, (1,)),)),
    ]
    assert {(r.type, r.group_id, r.member_id, r.member_epoch, r.reply_to) for r in sent} == {
        ("acknowledge", "g", "m", EPOCH, "m")
    }


def test_a_long_row_is_split() -> None:
    sent = a_round(*((P0, n, n) for n in range(MAX_RANGES_PER_ROW + 1))).due_requests(EPOCH, 0)
    assert [len(r.batches) for r in sent] == [MAX_RANGES_PER_ROW, 1]


def test_a_row_contains_its_acquired_ranges() -> None:
    acks = round_of(held(P0, 0, 9), held(P0, 10, 19), held(P0, 30, 39, 3), held(P1, 5, 5, 2))
    assert [r.acquired for r in acks.due_requests(EPOCH, 0)] == [((0, 19, 1), (30, 39, 3)), ((5, 5, 2),)]


def test_a_part_of_a_row_contains_its_acquired_ranges() -> None:
    ranges = (held(P0, 0, 9), held(P0, 10, 19, 2))
    batches = {
        P0: [AcknowledgementBatch(0, 4, (1,)), AcknowledgementBatch(5, 9, (2,)), AcknowledgementBatch(10, 19, (1,))]
    }
    acks = AcknowledgementRound("g", "m", batches, ranges, map(str, itertools.count()))
    [whole] = acks.due_requests(EPOCH, 0)
    assert whole.acquired == ((0, 9, 1), (10, 19, 2))
    acks.handle_response(answer(whole, ErrorCode.INVALID_RECORD_STATE), 0)
    assert [r.acquired for r in acks.due_requests(EPOCH, 0)] == [((0, 4, 1),), ((5, 9, 1),), ((10, 19, 2),)]


def test_a_renewal_without_acquired_ranges_covers_held_ones() -> None:
    batches = uniform_batches([held(P0, 0, 9)], AcknowledgeType.RENEW)
    [request] = AcknowledgementRound("g", "m", batches, (), map(str, itertools.count()), is_renewal=True).due_requests(
        EPOCH, 0
    )
    assert "acquired" not in json.loads(request.encode())


def test_the_longest_row_fits_into_a_message() -> None:
    """Brokers and producers accept a megabyte by default."""
    first = MAX_OFFSET - 3 * MAX_RANGES_PER_ROW
    counts = itertools.cycle([MAX_DELIVERY_COUNT, MAX_DELIVERY_COUNT - 1])  # so that no two ranges are joined
    offsets = range(first, first + 2 * MAX_RANGES_PER_ROW, 2)
    [request] = round_of(*(held(P0, o, o + 1, next(counts)) for o in offsets)).due_requests(EPOCH, 0)
    assert (len(request.batches), len(request.acquired)) == (MAX_RANGES_PER_ROW, MAX_RANGES_PER_ROW)
    assert len(request.encode()) < 1_000_000


def test_rows_of_a_deleted_topic_are_not_retried() -> None:
    acks = a_round((P0, 0, 9), (P1, 0, 9))
    one, two = acks.due_requests(EPOCH, 0)
    acks.handle_response(answer(one, ErrorCode.UNKNOWN_TOPIC_ID), 0)
    acks.handle_response(answer(two), 0)
    assert (acks.is_done, acks.rejected) == (True, [])


def test_a_row_without_response_is_sent_again_with_its_id() -> None:
    acks = a_round((P0, 0, 9))
    [first] = acks.due_requests(EPOCH, 0)
    assert acks.due_requests(EPOCH, RESPONSE_TIMEOUT_MS - 1) == []
    [again] = acks.due_requests(EPOCH, RESPONSE_TIMEOUT_MS)
    assert again == first
    assert acks.handle_response(answer(first), 1)
    assert acks.is_done
    assert not acks.handle_response(answer(again, ErrorCode.INVALID_RECORD_STATE), 2)
    assert acks.rejected == []


def test_a_rejected_row_is_split_down_to_the_lost_ranges() -> None:
    ranges = [(P0, 10 * n, 10 * n + 9) for n in range(PARTS * 2)]
    acks = a_round(*ranges)
    lost = AcknowledgementBatch(500, 509, (1,))
    rounds = 0
    while not acks.is_done:
        rounds += 1
        for request in acks.due_requests(EPOCH, 0):
            acks.handle_response(answer(request, ErrorCode.INVALID_RECORD_STATE if lost in request.batches else 0), 0)
    assert acks.rejected == [(P0, lost)]
    assert rounds == 3  # all, 64 parts of two, one by one


def test_a_retriable_error_is_retried_later() -> None:
    acks = a_round((P0, 0, 9))
    [first] = acks.due_requests(EPOCH, 0)
    acks.handle_response(answer(first, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 10)
    assert acks.due_requests(EPOCH, 10 + RETRY_MS - 1) == []
    [again] = acks.due_requests(EPOCH, 10 + RETRY_MS)
    assert (again.id != first.id, again.batches) == (True, first.batches)


def test_the_earliest_renewed_lock_counts() -> None:
    renewal = a_round((P0, 0, 9), (P1, 0, 9), is_renewal=True)
    one, two = renewal.due_requests(EPOCH, 0)
    assert (one.is_renew_ack, one.batches[0].acknowledge_types) == (True, (4,))
    renewal.handle_response(answer(one, deadline_ms=2_000), 0)
    renewal.handle_response(answer(two, deadline_ms=1_000), 0)
    assert (renewal.is_done, renewal.lock_deadline_ms) == (True, 1_000)


def test_a_group_without_renewals_is_reported() -> None:
    renewal = a_round((P0, 0, 9), (P0, 20, 29), is_renewal=True)
    [request] = renewal.due_requests(EPOCH, 0)
    renewal.handle_response(replace(answer(request, ErrorCode.INVALID_RECORD_STATE), renewals_off=True), 0)
    assert (renewal.is_done, renewal.not_allowed, renewal.rejected) == (True, True, [])


def test_only_ranges_listed_in_a_response_are_renewed() -> None:
    ranges = [held(where, first, first + 9) for where in (P0, P1) for first in (0, 10, 20)]
    renewal = round_of(*ranges, is_renewal=True)
    one, two = renewal.due_requests(EPOCH, 0)
    acquired = AcquiredRange(5, 12, 1), AcquiredRange(13, 15, 3), AcquiredRange(28, 40, 2)
    renewal.handle_response(replace(answer(one, deadline_ms=2_000), acquired=acquired), 0)
    renewal.handle_response(answer(two), 0)
    assert renewal.renewed_parts(reversed(ranges)) == tuple(
        HeldRange("t", "id", 0, first, last, count, 2_000)
        for first, last, count in [(5, 9, 1), (10, 12, 1), (13, 15, 3), (28, 29, 2)]
    )
