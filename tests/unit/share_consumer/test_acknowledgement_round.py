"""Acknowledgement rows: sent once, again when unanswered, in parts when refused."""

import itertools

from sharegroup.errors import ErrorCode
from sharegroup.protocol.request_rows import MAX_RANGES_PER_ROW, SharePartitionRequest
from sharegroup.protocol.response_rows import SharePartitionResponse
from sharegroup.spark.share_consumer.acknowledgement_round import (
    PARTS,
    RESPONSE_TIMEOUT_MS,
    RETRY_MS,
    AcknowledgementRound,
    uniform,
)
from sharegroup.spark.share_consumer.ranges import HeldRange, SharePartition
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

P0, P1 = SharePartition("t", 0), SharePartition("t", 1)
EPOCH = 7


def a_round(*ranges: tuple[SharePartition, int, int], is_renewal: bool = False) -> AcknowledgementRound:
    batches = uniform(ranges, AcknowledgeType.RENEW if is_renewal else AcknowledgeType.ACCEPT)
    return AcknowledgementRound("g", "m", batches, map(str, itertools.count()), is_renewal)


def answer(request: SharePartitionRequest, code: int = 0, deadline_ms: int = -1) -> SharePartitionResponse:
    return SharePartitionResponse(
        request.type, request.id, "m", "g", request.topic, request.partition, "m", code, None, (), deadline_ms
    )


def test_a_row_for_each_share_partition() -> None:
    sent = a_round((P0, 0, 9), (P0, 10, 19), (P1, 5, 5)).due(EPOCH, 0)
    assert [(r.partition, r.batches) for r in sent] == [
        (0, (AcknowledgementBatch(0, 9, (1,)), AcknowledgementBatch(10, 19, (1,)))),
        (1, (AcknowledgementBatch(5, 5, (1,)),)),
    ]
    assert {(r.type, r.group_id, r.member_id, r.member_epoch, r.reply_to) for r in sent} == {
        ("acknowledge", "g", "m", EPOCH, "m")
    }


def test_a_long_row_is_cut() -> None:
    sent = a_round(*((P0, n, n) for n in range(MAX_RANGES_PER_ROW + 1))).due(EPOCH, 0)
    assert [len(r.batches) for r in sent] == [MAX_RANGES_PER_ROW, 1]


def test_an_unanswered_row_is_sent_again_with_its_id_and_the_first_answer_counts() -> None:
    acks = a_round((P0, 0, 9))
    [first] = acks.due(EPOCH, 0)
    assert acks.due(EPOCH, RESPONSE_TIMEOUT_MS - 1) == []
    [again] = acks.due(EPOCH, RESPONSE_TIMEOUT_MS)
    assert again == first
    assert acks.take(answer(first), 1)
    assert acks.is_done
    assert not acks.take(answer(again, ErrorCode.INVALID_RECORD_STATE), 2)
    assert acks.refused == []


def test_a_refused_row_is_sent_in_parts_until_only_what_is_lost_is_refused() -> None:
    ranges = [(P0, 10 * n, 10 * n + 9) for n in range(PARTS * 2)]
    acks = a_round(*ranges)
    lost = AcknowledgementBatch(500, 509, (1,))
    rounds = 0
    while not acks.is_done:
        rounds += 1
        for request in acks.due(EPOCH, 0):
            acks.take(answer(request, ErrorCode.INVALID_RECORD_STATE if lost in request.batches else 0), 0)
    assert acks.refused == [(P0, lost)]
    assert rounds == 3  # all, 64 parts of two, one by one


def test_what_may_succeed_later_is_tried_later() -> None:
    acks = a_round((P0, 0, 9))
    [first] = acks.due(EPOCH, 0)
    acks.take(answer(first, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 10)
    assert acks.due(EPOCH, 10 + RETRY_MS - 1) == []
    [again] = acks.due(EPOCH, 10 + RETRY_MS)
    assert (again.id != first.id, again.batches) == (True, first.batches)


def test_the_earliest_renewed_lock_counts() -> None:
    renewal = a_round((P0, 0, 9), (P1, 0, 9), is_renewal=True)
    one, two = renewal.due(EPOCH, 0)
    assert (one.is_renew_ack, one.batches[0].acknowledge_types) == (True, (4,))
    renewal.take(answer(one, deadline_ms=2_000), 0)
    renewal.take(answer(two, deadline_ms=1_000), 0)
    assert (renewal.is_done, renewal.lock_deadline_ms) == (True, 1_000)


def test_renewals_that_the_group_does_not_allow() -> None:
    renewal = a_round((P0, 0, 9), (P0, 20, 29), is_renewal=True)
    [request] = renewal.due(EPOCH, 0)
    renewal.take(answer(request, ErrorCode.INVALID_RECORD_STATE)._replace(renewals_off=True), 0)
    assert (renewal.is_done, renewal.not_allowed, renewal.refused) == (True, True, [])


def test_only_what_an_answer_lists_was_renewed() -> None:
    ranges = [HeldRange("t", partition, first, first + 9, 1, 0) for partition in (0, 1) for first in (0, 10, 20)]
    renewal = a_round(*((r.share_partition, r.first_offset, r.last_offset) for r in ranges), is_renewal=True)
    one, two = renewal.due(EPOCH, 0)
    acquired = AcquiredRange(5, 12, 1), AcquiredRange(13, 15, 3), AcquiredRange(28, 40, 2)
    renewal.take(answer(one, deadline_ms=2_000)._replace(acquired=acquired), 0)
    renewal.take(answer(two), 0)
    assert renewal.renewed(reversed(ranges)) == tuple(
        HeldRange("t", 0, first, last, count, 2_000)
        for first, last, count in [(5, 9, 1), (10, 12, 1), (13, 15, 3), (28, 29, 2)]
    )
