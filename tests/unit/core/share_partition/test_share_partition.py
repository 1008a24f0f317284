"""Rules of the machine that Kafka's scenarios do not cover, and single cases of other rules."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from sharegroup.core.share_partition import Outcome, SharePartition, SharePartitionConfig
from sharegroup.core.share_partition.acknowledgement import AcknowledgementRejected
from sharegroup.core.share_partition.share_partition import MAX_ACQUIRED_RANGES
from sharegroup.errors import RequestError
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
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def acquired(
    partition: SharePartition, member: str = "m1", count: int = 10, now_ms: int = 0
) -> tuple[AcquiredRange, ...]:
    outcome = partition.acquire(member, count, now_ms, CONFIG)
    partition.replay(outcome)
    return outcome.response


def acknowledged(
    partition: SharePartition, *batches: tuple[int, int, int], member: str = "m1", now_ms: int = 0
) -> tuple[Transition, ...]:
    request = [AcknowledgementBatch(first, last, (type_,)) for first, last, type_ in batches]
    outcome = partition.acknowledge(member, request, now_ms, CONFIG, True)
    partition.replay(outcome)
    return outcome.transitions


def test_acquire_answers_and_records_the_lock() -> None:
    partition = SharePartition(0, 0, 100)
    outcome = partition.acquire("m1", 10, 1_000, CONFIG)
    assert outcome == Outcome((Transition(0, 9, A, Q, Cause.FETCH, "m1", 1, 31_000),), (AcquiredRange(0, 9, 1),))
    assert partition.end_offset == 0  # decided, not done
    partition.replay(outcome)
    assert (partition.start_offset, partition.end_offset, partition.next_deadline_ms()) == (0, 10, 31_000)
    assert partition.state_batches() == [StateBatch(0, 9, Q, 1, "m1", 31_000)]
    assert partition.members() == ["m1"]


def test_a_lock_holds_at_its_deadline_and_is_over_after_it() -> None:
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    assert partition.expire(30_000, CONFIG).is_empty
    partition.replay(partition.expire(30_001, CONFIG))
    assert partition.state_batches() == [StateBatch(0, 9, A, 1)]
    assert partition.next_deadline_ms() is None
    assert partition.available_count == 10


def test_expiry_releases_all_members_records_in_offset_order() -> None:
    partition = SharePartition(0, 0, 30)
    for number, member in enumerate(["m2", "m1", "m2"]):
        acquired(partition, member, now_ms=number)
    outcome = partition.expire(30_002, CONFIG)
    assert [(t.first_offset, t.member_id) for t in outcome.transitions] == [(0, "m2"), (10, "m1")]
    partition.replay(outcome)
    assert (partition.has_member("m1"), partition.has_member("m2"), partition.next_deadline_ms()) == (
        False,
        True,
        30_002,
    )


def test_the_start_offset_moves_in_the_step_that_finishes_the_head() -> None:
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    acknowledged(partition, (5, 9, ACCEPT))
    assert (partition.start_offset, partition.delivery_complete_count) == (0, 5)
    acknowledged(partition, (0, 3, REJECT), (4, 4, GAP))
    assert (partition.start_offset, partition.end_offset, partition.delivery_complete_count) == (10, 10, 0)
    assert partition.state_batches() == []


def test_state_batches_in_returns_each_record_in_flight_once() -> None:
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    transitions = acknowledged(partition, (0, 1, ACCEPT), (4, 5, RELEASE), (8, 8, ACCEPT))
    ranges = [OffsetRange(t.first_offset, t.last_offset) for t in transitions]
    assert partition.state_batches_in([*ranges, OffsetRange(5, 5)]) == [StateBatch(4, 5, A, 1), StateBatch(8, 8, K, 1)]
    assert partition.state_batches_in([OffsetRange(3, 4), OffsetRange(4, 6)]) == [
        StateBatch(3, 3, Q, 1, "m1", 30_000),
        StateBatch(4, 4, A, 1),
        StateBatch(5, 5, A, 1),
        StateBatch(6, 6, Q, 1, "m1", 30_000),
    ]


def test_locks_survive_a_load_from_our_own_state() -> None:
    partition = SharePartition(0, 0, 20)
    acquired(partition, now_ms=500)
    acknowledged(partition, (0, 1, ACCEPT), (4, 4, RELEASE))
    loaded = SharePartition.load(partition.start_offset, reversed(partition.state_batches()), 0, 20)
    assert loaded.state_batches() == partition.state_batches()
    assert loaded.next_deadline_ms() == 30_500
    acknowledged(loaded, (2, 3, ACCEPT))
    assert loaded.start_offset == 4


def test_load_trims_below_the_start_offset_and_frees_unheld_records() -> None:
    loaded = SharePartition.load(5, [StateBatch(0, 3, A, 1), StateBatch(4, 6, A, 2), StateBatch(7, 9, Q, 3)], 0, 20)
    assert loaded.state_batches() == [StateBatch(5, 6, A, 2), StateBatch(7, 9, A, 3)]


def test_a_fetch_below_the_log_start_moves_there_and_acquires_nothing() -> None:
    partition = SharePartition(0, 5, 10)
    assert partition.has_available(CONFIG)
    assert acquired(partition) == ()
    assert partition.start_offset == 5
    assert acquired(partition) == (AcquiredRange(5, 9, 1),)


def test_lost_records_leave_immediately_with_transitions_if_delivered() -> None:
    partition = SharePartition(0, 0, 30)
    acquired(partition, "m1")
    acquired(partition, "m2")
    acknowledged(partition, (2, 3, ACCEPT), (4, 5, RELEASE))
    partition.replay(partition.unacquire("m1", [OffsetRange(6, 7)]))
    outcome = partition.move_log_start(12)
    assert outcome.transitions == (
        Transition(0, 1, Q, X, Cause.LOG_TRUNCATED, "m1", 1),
        Transition(4, 5, A, X, Cause.LOG_TRUNCATED, None, 1),
        Transition(8, 9, Q, X, Cause.LOG_TRUNCATED, "m1", 1),
        Transition(10, 11, Q, X, Cause.LOG_TRUNCATED, "m2", 1),
    )
    partition.replay(outcome)
    assert (partition.start_offset, partition.log_start_offset) == (12, 12)
    assert partition.state_batches() == [StateBatch(12, 19, Q, 1, "m2", 30_000)]
    assert not partition.has_member("m1")
    assert acknowledged(partition, (0, 9, ACCEPT)) == ()  # late, and nothing to be done


def test_start_offset_advances_when_the_last_lost_lock_is_over() -> None:
    partition = SharePartition(0, 0, 30)
    acquired(partition, "m1", 2)
    acquired(partition, "m2", 3)
    acknowledged(partition, (2, 4, ACCEPT), member="m2")
    partition.replay(partition.move_log_start(4))
    assert (partition.start_offset, partition.next_deadline_ms()) == (4, 30_000)
    partition.replay(partition.expire(30_001, CONFIG))
    assert (partition.start_offset, partition.next_deadline_ms()) == (5, None)


def test_log_end_limits_acquisition() -> None:
    partition = SharePartition(0, 0, 3)
    assert acquired(partition) == (AcquiredRange(0, 2, 1),)
    assert not partition.has_available(CONFIG)
    partition.replay(partition.move_log_end(4))
    assert partition.has_available(CONFIG)
    assert not partition.has_available(SharePartitionConfig(max_record_locks=3))
    assert acquired(partition) == (AcquiredRange(3, 3, 1),)


def test_unacquire_gives_the_delivery_attempt_back() -> None:
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    acknowledged(partition, (0, 9, RELEASE))
    acquired(partition)
    outcome = partition.unacquire("m1", [OffsetRange(8, 9), OffsetRange(0, 3)])
    assert outcome.transitions == (
        Transition(0, 3, Q, A, Cause.UNACQUIRE, "m1", 1),
        Transition(8, 9, Q, A, Cause.UNACQUIRE, "m1", 1),
    )
    partition.replay(outcome)
    assert acquired(partition, "m2") == (AcquiredRange(0, 3, 2), AcquiredRange(8, 9, 2))


def test_unacquired_records_are_acquired_with_new_ones() -> None:
    partition = SharePartition(0, 0, 20)
    acquired(partition)
    partition.replay(partition.unacquire("m1", [OffsetRange(5, 9)]))
    assert acquired(partition, "m2") == (AcquiredRange(5, 14, 1),)


@pytest.mark.parametrize(
    "ranges",
    [
        [OffsetRange(2, 3), OffsetRange(9, 10)],  # past the end
        [OffsetRange(2, 3), OffsetRange(3, 4)],  # twice
        [OffsetRange(0, 1), OffsetRange(4, 6)],  # partly another member's
    ],
)
def test_unacquire_is_all_or_nothing(ranges: list[OffsetRange]) -> None:
    partition = SharePartition(0, 0, 10)
    acquired(partition, "m1", 5)
    acquired(partition, "m2", 5)
    with pytest.raises(RequestError, match="INVALID_RECORD_STATE"):
        partition.unacquire("m1", ranges)


def test_unacquire_skips_records_below_the_log_start() -> None:
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    partition.replay(partition.move_log_start(4))
    outcome = partition.unacquire("m1", [OffsetRange(0, 2), OffsetRange(3, 5)])
    assert outcome.transitions == (Transition(4, 5, Q, A, Cause.UNACQUIRE, "m1", 0),)


def test_undelivered_attempt_is_undone_after_its_lock_expired() -> None:
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    partition.replay(partition.expire(CONFIG.record_lock_duration_ms + 1, CONFIG))
    outcome = partition.undo_deliveries("m1", [AcquiredRange(2, 30, 1)])
    assert outcome.transitions == (Transition(2, 9, A, A, Cause.UNACQUIRE, "m1", 0),)
    partition.replay(outcome)
    assert partition.undo_deliveries("m1", [AcquiredRange(2, 9, 1)]).is_empty
    assert acquired(partition, "m2") == (AcquiredRange(0, 1, 2), AcquiredRange(2, 9, 1))


def test_a_repeated_return_leaves_the_attempt_of_another_member_alone() -> None:
    """The other member's lock has expired, and its delivery has the same count."""
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    given_back = [AcquiredRange(0, 9, 1)]
    partition.replay(partition.undo_deliveries("m1", given_back))
    acquired(partition, "m2")
    partition.replay(partition.expire(CONFIG.record_lock_duration_ms + 1, CONFIG))
    restored = SharePartition.restore(partition.dump())
    for window in (partition, restored):
        assert window.undo_deliveries("m1", given_back).is_empty
        assert window.undo_deliveries("m2", given_back).transitions == (
            Transition(0, 9, A, A, Cause.UNACQUIRE, "m2", 0),
        )
        assert window.state_batches() == [StateBatch(0, 9, A, 1, None, None)]


def test_undoing_an_attempt_does_not_affect_later_deliveries() -> None:
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    partition.replay(partition.expire(CONFIG.record_lock_duration_ms + 1, CONFIG))
    acquired(partition, "m2", 5)  # a second time
    acknowledged(partition, (4, 4, ACCEPT), member="m2")
    assert partition.undo_deliveries("m1", [AcquiredRange(0, 4, 1), AcquiredRange(0, 4, 2)]).is_empty
    outcome = partition.undo_deliveries("m2", [AcquiredRange(0, 4, 2)])
    assert outcome.transitions == (Transition(0, 3, Q, A, Cause.UNACQUIRE, "m2", 1),)


def test_scattered_records_are_acquired_in_answers_of_bounded_size() -> None:
    records = 2 * MAX_ACQUIRED_RANGES + 2
    config = SharePartitionConfig(max_record_locks=records)
    partition = SharePartition(0, 0, records)
    partition.replay(partition.acquire("m1", records, 0, config))
    every_other = [AcknowledgementBatch(n, n, (RELEASE,)) for n in range(0, records, 2)]
    partition.replay(partition.acknowledge("m1", every_other, 0, config, False))
    sizes = []
    for _ in range(3):
        outcome = partition.acquire("m2", records, 0, config)
        partition.replay(outcome)
        sizes.append(len(outcome.response))
    assert sizes == [MAX_ACQUIRED_RANGES, 1, 0]


def test_reset_forgets_everything() -> None:
    partition = SharePartition(0, 0, 30)
    acquired(partition)
    acknowledged(partition, (2, 3, ACCEPT), (4, 9, RELEASE))
    outcome = partition.reset(7)
    assert outcome.transitions == (
        Transition(0, 1, Q, X, Cause.RESET, "m1", 1),
        Transition(4, 9, A, X, Cause.RESET, None, 1),
    )
    partition.replay(outcome)
    assert partition.dump() == SharePartition(7, 0, 30).dump()


def test_renew_is_a_transition_with_the_new_deadline() -> None:
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    assert acknowledged(partition, (2, 4, RENEW), now_ms=20_000) == (
        Transition(2, 4, Q, Q, Cause.RENEW, "m1", 1, 50_000),
    )
    assert partition.next_deadline_ms() == 30_000
    partition.replay(partition.expire(40_000, CONFIG))
    assert partition.state_batches() == [
        StateBatch(0, 1, A, 1),
        StateBatch(2, 4, Q, 1, "m1", 50_000),
        StateBatch(5, 9, A, 1),
    ]


def test_renewed_offset_can_be_finished_later_in_the_same_request() -> None:
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    acknowledged(partition, (0, 4, RENEW), (4, 9, ACCEPT), now_ms=10)
    assert partition.state_batches() == [StateBatch(0, 3, Q, 1, "m1", 30_010), StateBatch(4, 9, K, 1)]


def test_rejection_contains_the_renewals_that_kafka_keeps() -> None:
    partition = SharePartition(0, 0, 20)
    acquired(partition)
    before = partition.dump()
    batches = [
        AcknowledgementBatch(0, 3, (RENEW,)),
        AcknowledgementBatch(4, 5, (ACCEPT,)),
        AcknowledgementBatch(8, 12, (ACCEPT,)),
    ]
    with pytest.raises(AcknowledgementRejected, match="INVALID_REQUEST") as refused:
        partition.acknowledge("m1", batches, 1_000, CONFIG, True)
    assert partition.dump() == before
    assert refused.value.renewals.transitions == (Transition(0, 3, Q, Q, Cause.RENEW, "m1", 1, 31_000),)
    partition.replay(refused.value.renewals)
    assert partition.state_batches()[1] == StateBatch(4, 9, Q, 1, "m1", 30_000)


@pytest.mark.parametrize("batch", [(2, 3, (RENEW,)), (-2, 3, (ACCEPT,)), (4, 3, (ACCEPT,)), (2, 5, (ACCEPT, ACCEPT))])
def test_the_request_check_comes_before_the_state(batch: tuple[int, int, tuple[int, ...]]) -> None:
    with pytest.raises(RequestError, match="INVALID_REQUEST"):
        SharePartition(0, 0, 10).acknowledge("m1", [AcknowledgementBatch(*batch)], 0, CONFIG, False)


def test_a_lower_limit_archives_at_the_next_release() -> None:
    partition = SharePartition(0, 0, 10)
    for _ in range(2):
        acquired(partition)
        partition.replay(partition.release_member("m1", CONFIG))
    acquired(partition)
    partition.replay(partition.release_member("m1", SharePartitionConfig(delivery_count_limit=2)))
    assert (partition.start_offset, partition.state_batches()) == (10, [])


def test_a_higher_limit_allows_more_deliveries() -> None:
    partition = SharePartition(0, 0, 1)
    lower, higher = SharePartitionConfig(delivery_count_limit=3), SharePartitionConfig(delivery_count_limit=5)
    for config in (lower, lower, higher, higher):
        acquired(partition)
        partition.replay(partition.release_member("m1", config))
    assert acquired(partition) == (AcquiredRange(0, 0, 5),)
    partition.replay(partition.release_member("m1", higher))
    assert (partition.start_offset, partition.state_batches()) == (1, [])


def test_batches_are_halved_from_half_of_the_delivery_limit_on() -> None:
    partition, config = SharePartition(0, 0, 512), SharePartitionConfig(delivery_count_limit=10)
    sizes, deliveries = [], Counter[int]()
    while partition.start_offset < 512:
        outcome = partition.acquire("m1", 512, 0, config)
        partition.replay(outcome)
        offsets = [offset for found in outcome.response for offset in range(found.first_offset, found.last_offset + 1)]
        sizes.append(len(offsets))
        deliveries.update(offsets)
        partition.replay(partition.release_member("m1", config))
    assert sizes[:10] == [512, 512, 512, 512, 512, 256, 128, 64, 32, 1]
    assert deliveries == dict.fromkeys(range(512), 10)


def test_throttling_keeps_fetch_batches_across_a_restart() -> None:
    partition = SharePartition(0, 0, 14)
    for _ in range(3):
        acquired(partition, count=10)
        partition.replay(partition.release_member("m1", CONFIG))
    acquired(partition, "m2", 1)
    acknowledged(partition, (0, 0, ACCEPT), member="m2")
    partition = SharePartition.restore(json.loads(json.dumps(partition.dump())))
    # a share of five of the ten that the first fetch read, although one of them is finished and removed
    assert acquired(partition, "m1", 100) == (AcquiredRange(1, 5, 4),)


def test_a_million_acquired_records_are_ten_ranges() -> None:
    partition = SharePartition(5_000_000_000, 0, 6_000_000_000)
    config = SharePartitionConfig(max_record_locks=10_000_000)
    for number in range(10):
        outcome = partition.acquire(
            f"9a8b7c6d-5e4f-4a3b-8c2d-1e0f9a8b7c6{number}", 100_000, 1_763_690_000_000 + number, config
        )
        partition.replay(outcome)
    assert partition.end_offset - partition.start_offset == 1_000_000
    assert len(partition.state_batches()) == 10
    assert len(json.dumps(partition.dump())) <= 2_048


def test_a_window_of_alternating_records_is_dumped_in_a_few_bytes_for_each() -> None:
    partition = SharePartition(0, 0, 4_000)
    acquired(partition, count=4_000)
    config = SharePartitionConfig(max_record_locks=4_000)
    partition.replay(partition.acquire("m1", 4_000, 0, config))
    for offset in range(1, partition.end_offset, 2):
        acknowledged(partition, (offset, offset, ACCEPT))
    assert len(partition.state_batches()) > 1_000
    assert len(json.dumps(partition.dump())) < 10 * len(partition.state_batches())
    assert SharePartition.restore(partition.dump()).state_batches() == partition.state_batches()


# -- grants ------------------------------------------------------------------------------------------------------------


def answered(
    partition: SharePartition, grants: list[tuple[int, int, int]], *batches: tuple[int, int, int], member: str = "m1"
) -> str:
    """Acknowledge with these grants; return the error, or the transitions."""
    request = [AcknowledgementBatch(first, last, (type_,)) for first, last, type_ in batches]
    try:
        outcome = partition.acknowledge(member, request, 0, CONFIG, True, [AcquiredRange(*grant) for grant in grants])
    except RequestError as error:
        return str(error)
    partition.replay(outcome)
    return ", ".join(f"{t.first_offset}..{t.last_offset} {t.cause.value}" for t in outcome.transitions)


def granted_twice() -> SharePartition:
    """m1 holds 0..4 in their second delivery and 5..9 in their first."""
    partition = SharePartition(0, 0, 10)
    acquired(partition)
    acknowledged(partition, (0, 4, RELEASE))
    assert acquired(partition) == (AcquiredRange(0, 4, 2),)
    return partition


@pytest.mark.parametrize(
    ("grants", "batch", "said"),
    [
        ([(0, 4, 2), (5, 9, 1)], (0, 9, ACCEPT), "0..4 accept, 5..9 accept"),
        ([(0, 2, 2), (3, 4, 2), (5, 20, 1)], (0, 9, ACCEPT), "0..4 accept, 5..9 accept"),
        ([(5, 9, 1)], (5, 6, RENEW), "5..6 renew"),
        ([(0, 9, 1)], (0, 9, ACCEPT), "INVALID_RECORD_STATE: offsets 0..4 have delivery count 2, not 1"),
        ([(0, 4, 1)], (2, 3, RELEASE), "INVALID_RECORD_STATE: offsets 2..3 have delivery count 2, not 1"),
        ([(0, 3, 2), (4, 4, 3)], (0, 4, RENEW), "INVALID_RECORD_STATE: offsets 4..4 have delivery count 2, not 3"),
        (
            [(0, 3, 2)],
            (0, 4, ACCEPT),
            "INVALID_RECORD_STATE: offsets 4..4 are not among the acquired ranges of the request",
        ),
        (
            [(0, 1, 2), (3, 4, 2)],
            (0, 4, REJECT),
            "INVALID_RECORD_STATE: offsets 2..4 are not among the acquired ranges of the request",
        ),
        (
            [(40, 49, 1)],
            (0, 4, ACCEPT),
            "INVALID_RECORD_STATE: offsets 0..4 are not among the acquired ranges of the request",
        ),
        ([(0, 29, 1)], (20, 29, ACCEPT), "INVALID_REQUEST: 20..29 reaches past the records in flight"),
        ([], (0, 9, ACCEPT), "0..4 accept, 5..9 accept"),
    ],
)
def test_acknowledgement_applies_only_to_its_grants(
    grants: list[tuple[int, int, int]], batch: tuple[int, int, int], said: str
) -> None:
    partition = granted_twice()
    before = partition.state_batches()
    assert answered(partition, grants, batch) == said
    if said.startswith("INVALID"):
        assert partition.state_batches() == before


def test_finished_records_need_no_grant() -> None:
    partition = granted_twice()
    acknowledged(partition, (0, 4, ACCEPT))
    assert answered(partition, [(5, 9, 1)], (0, 6, ACCEPT)) == "5..6 accept"


def test_an_acknowledgement_wholly_above_the_window_is_an_invalid_request() -> None:
    for grants in ([], [(10, 19, 1)]):
        said = answered(granted_twice(), grants, (10, 19, ACCEPT))
        assert said == "INVALID_REQUEST: 10..19 reaches past the records in flight"


def test_deleted_topic_archives_records_in_flight() -> None:
    partition = granted_twice()
    outcome = partition.reset(10, Cause.TOPIC_DELETED)
    assert outcome.transitions == (
        Transition(0, 4, Q, X, Cause.TOPIC_DELETED, "m1", 2),
        Transition(5, 9, Q, X, Cause.TOPIC_DELETED, "m1", 1),
    )
    partition.replay(outcome)
    assert (partition.start_offset, partition.state_batches()) == (10, [])
