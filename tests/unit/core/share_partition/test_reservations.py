"""Reservations: offsets after the end of the log that a gateway holds until their records arrive."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sharegroup.core.share_partition import Outcome, SharePartition, SharePartitionConfig
from sharegroup.core.share_partition.reservation import NO_DEADLINE_MS
from sharegroup.errors import ErrorCode, IllegalTransitionError, RequestError
from sharegroup.types import (
    AcknowledgementBatch,
    AcquiredRange,
    Cause,
    OffsetRange,
    RecordState,
    StateBatch,
    Transition,
)

A, Q, K, X = RecordState.AVAILABLE, RecordState.ACQUIRED, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
CONFIG = SharePartitionConfig()
G1, G2 = "gateway-1#1", "gateway-2#1"
LOCK_MS = 30_000


def reserved(
    partition: SharePartition, records: int = 10, reserver: str = G1, config: SharePartitionConfig = CONFIG
) -> list[OffsetRange]:
    """Reserve, and return all that is reserved for this reserver then."""
    partition.replay(partition.reserve(reserver, records, config))
    return partition.reserved_ranges(reserver)


def assigned(partition: SharePartition, first: int, last: int, member: str = "m1", append_ms: int = 0) -> Outcome:
    outcome = partition.assign(G1, member, [OffsetRange(first, last)], append_ms, LOCK_MS)
    partition.replay(outcome)
    return outcome


def acquired(partition: SharePartition, records: int = 10, member: str = "m1", now_ms: int = 0) -> list[AcquiredRange]:
    outcome = partition.acquire(member, records, now_ms, CONFIG)
    partition.replay(outcome)
    return list(outcome.response)


def test_offsets_after_the_log_are_reserved_with_delivery_count_0() -> None:
    partition = SharePartition(0, 0, 0)
    outcome = partition.reserve(G1, 10, CONFIG)
    assert outcome == Outcome((Transition(0, 9, A, Q, Cause.RESERVE, G1, 0, NO_DEADLINE_MS),))
    partition.replay(outcome)
    assert partition.state_batches() == [StateBatch(0, 9, Q, 0, G1, None)]
    assert (partition.end_offset, partition.delivered_end_offset) == (10, 0)
    assert (partition.is_due(NO_DEADLINE_MS), partition.reservers()) == (False, [G1])


def test_nothing_is_reserved_while_records_can_be_acquired() -> None:
    assert reserved(SharePartition(0, 0, 1)) == []
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    partition.replay(partition.release_member("m1", CONFIG))
    assert reserved(partition) == []
    acquired(partition)
    assert reserved(partition) == [(10, 19)]


def test_reservation_counts_against_the_record_locks() -> None:
    config = replace(CONFIG, max_record_locks=12)
    partition = SharePartition(0, 0, 10)
    partition.replay(partition.acquire("m1", 10, 0, config))
    assert reserved(partition, config=config) == [(10, 11)]
    assert reserved(partition, reserver=G2, config=config) == []
    partition.replay(partition.move_log_end(20))
    assert partition.acquire("m2", 10, 0, config).is_empty


def test_reserving_again_adds_what_is_missing() -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition, 10)
    partition.replay(partition.move_log_end(5))
    assigned(partition, 0, 4)
    assert reserved(partition, 10) == [(5, 14)]
    assert partition.reserve(G1, 10, CONFIG).is_empty
    assert partition.reserve(G1, 3, CONFIG).is_empty


def test_slices_of_two_gateways_lie_behind_each_other() -> None:
    partition = SharePartition(0, 0, 0)
    assert reserved(partition, 4) == [(0, 3)]
    assert reserved(partition, 4, G2) == [(4, 7)]
    assert reserved(partition, 6) == [(0, 3), (8, 9)]
    assert partition.reservers() == [G1, G2]


def test_members_do_not_get_reserved_records_but_those_behind() -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition)
    partition.replay(partition.move_log_end(10))
    assert not partition.has_available(CONFIG)
    assert acquired(partition) == []
    partition.replay(partition.move_log_end(12))
    assert acquired(partition) == [AcquiredRange(10, 11, 1)]


def test_assignment_is_a_delivery_whose_lock_begins_with_its_append() -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition)
    outcome = assigned(partition, 2, 4, append_ms=700)
    assert outcome.transitions == (Transition(2, 4, Q, Q, Cause.ASSIGN, "m1", 1, 30_700),)
    assert partition.state_batches() == [
        StateBatch(0, 1, Q, 0, G1, None),
        StateBatch(2, 4, Q, 1, "m1", 30_700),
        StateBatch(5, 9, Q, 0, G1, None),
    ]
    assert partition.delivered_end_offset == 5
    request = [AcknowledgementBatch(2, 4, (1,))]
    partition.replay(partition.acknowledge("m1", request, 800, CONFIG, False, [AcquiredRange(2, 4, 1)]))
    assert partition.state_batches()[1] == StateBatch(2, 4, K, 1)


@pytest.mark.parametrize(
    ("first", "last", "reserver"),
    [
        (8, 10, G1),  # beyond what is reserved
        (0, 3, G2),  # reserved for another gateway
        (0, 3, "gateway-1#2"),  # in an earlier epoch
        (5, 6, G1),  # assigned before
    ],
)
def test_assignment_of_other_records_is_rejected(first: int, last: int, reserver: str) -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition)
    assigned(partition, 5, 5)
    with pytest.raises(RequestError) as error:
        partition.assign(reserver, "m2", [OffsetRange(first, last)], 0, LOCK_MS)
    assert error.value.code == ErrorCode.INVALID_RECORD_STATE


def test_assignment_skips_what_is_below_the_start_offset() -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition)
    partition.replay(partition.move_log_start(3))
    assert assigned(partition, 0, 4).transitions == (Transition(3, 4, Q, Q, Cause.ASSIGN, "m1", 1, 30_000),)
    assert assigned(partition, 0, 2).is_empty


def test_unreserving_costs_no_delivery_attempt_and_frees_the_offsets() -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition)
    outcome = partition.unreserve(G1)
    assert outcome.transitions == (Transition(0, 9, Q, A, Cause.UNRESERVE, G1, 0),)
    partition.replay(outcome)
    assert (partition.end_offset, partition.available_count, partition.reservers()) == (0, 0, [])
    partition.replay(partition.move_log_end(4))
    assert acquired(partition) == [AcquiredRange(0, 3, 1)]


def test_offsets_freed_before_other_reservations_are_available_with_count_0() -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition, 4)
    reserved(partition, 4, G2)
    partition.replay(partition.unreserve(G1))
    assert partition.state_batches() == [StateBatch(0, 3, A, 0), StateBatch(4, 7, Q, 0, G2, None)]
    assert acquired(partition) == []  # the log ends before them
    assert reserved(partition, 6) == [(0, 3), (8, 9)]
    partition.replay(partition.unreserve(G1))
    partition.replay(partition.move_log_end(6))
    assert acquired(partition) == [AcquiredRange(0, 3, 1)]
    partition.replay(partition.release_member("m1", CONFIG))
    assert partition.state_batches()[0] == StateBatch(0, 3, A, 1)


def test_unreserving_frees_named_offsets_of_this_reserver_only() -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition, 10)
    reserved(partition, 10, G2)
    assigned(partition, 0, 3)
    partition.replay(partition.unreserve(G1, [OffsetRange(2, 6), OffsetRange(5, 14)]))
    assert partition.state_batches() == [
        StateBatch(0, 3, Q, 1, "m1", 30_000),
        StateBatch(4, 9, A, 0),
        StateBatch(10, 19, Q, 0, G2, None),
    ]
    assert partition.unreserve(G1).is_empty
    partition.replay(partition.unreserve(G2))
    assert partition.end_offset == 4  # nothing behind the last delivered record stays in the window


def test_freed_tail_leaves_the_window_only_up_to_a_delivered_record() -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition, 10)
    assigned(partition, 6, 7)
    partition.replay(partition.unreserve(G1))
    assert partition.state_batches() == [StateBatch(0, 5, A, 0), StateBatch(6, 7, Q, 1, "m1", 30_000)]


def test_only_reserved_records_are_assigned_and_they_are_only_assigned() -> None:
    partition = SharePartition(0, 0, 5)
    acquired(partition, 5)
    reserved(partition, 5)
    for bad in (
        Transition(0, 4, Q, Q, Cause.ASSIGN, "m2", 1, 100),
        Transition(5, 9, Q, K, Cause.ACCEPT, G1, 0),
        Transition(5, 12, Q, Q, Cause.ASSIGN, "m2", 1, 100),
        Transition(0, 4, Q, A, Cause.UNRESERVE, "m1", 0),
    ):
        with pytest.raises(IllegalTransitionError):
            partition.replay(Outcome((bad,)))
    with pytest.raises(RequestError) as error:
        partition.acknowledge(G1, [AcknowledgementBatch(5, 9, (1,))], 0, CONFIG, False)
    assert error.value.code == ErrorCode.INVALID_REQUEST  # as past the records in flight
    with pytest.raises(RequestError):
        partition.unacquire(G1, [OffsetRange(5, 9)])


def test_reset_and_log_start_end_reservations_without_transitions() -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition)
    outcome = partition.move_log_start(4)
    assert outcome.transitions == ()
    partition.replay(outcome)
    assert partition.reserved_ranges(G1) == [(4, 9)]
    outcome = partition.reset(2)
    assert outcome.transitions == ()
    partition.replay(outcome)
    assert (partition.state_batches(), partition.next_deadline_ms()) == ([], None)


def test_reservations_survive_a_load_and_a_restore() -> None:
    partition = SharePartition(0, 0, 3)
    acquired(partition, 3)
    reserved(partition, 4)
    reserved(partition, 4, G2)
    assigned(partition, 4, 4)
    loaded = SharePartition.load(0, partition.state_batches(), 0, 3)
    assert loaded.dump() == partition.dump()
    restored = SharePartition.restore(json.loads(json.dumps(partition.dump())))
    for each in (loaded, restored):
        assert each.reserved_ranges(G1) == [(3, 3), (5, 6)]
        assert each.delivered_end_offset == 5
        assert assigned(each, 5, 6).transitions


def test_slices_fuse_in_the_window() -> None:
    partition = SharePartition(0, 0, 0)
    for size in range(1, 50):
        reserved(partition, size)
    assert len(partition.dump()[6][0][9][0]) == 1


def test_throttling_uses_the_assigned_range_as_the_fetch_batch() -> None:
    partition = SharePartition(0, 0, 0)
    reserved(partition, 20)
    partition.replay(partition.move_log_end(20))
    for first, last in ((0, 9), (10, 19)):
        assigned(partition, first, last)
    for _ in range(3):
        partition.replay(partition.release_member("m1", CONFIG))
        granted = acquired(partition, 20)
    assert granted == [AcquiredRange(0, 4, 4)]
