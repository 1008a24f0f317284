"""One member's records of one share-partition: the rows that are sent to the job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.records.slicing import Slice
from sharegroup.gateway.sessions.member_leases import Lease
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.gateway.sessions.read_ahead import ReadAhead
from sharegroup.gateway.sessions.read_ahead_buffer import LockedRange
from sharegroup.protocol.rows.acknowledgement_rows import MAX_ROW_BYTES
from sharegroup.protocol.rows.share_partition_requests import (
    ACKNOWLEDGE,
    FETCH,
    MAX_RANGES_PER_ROW,
    RELEASE_MEMBER,
    UNACQUIRE,
    FetchRequest,
    SharePartitionRequest,
    UnacquireRequest,
)
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse
from sharegroup.types import AcknowledgementBatch, AcquiredRange, OffsetRange
from tests.unit.gateway.recording_job import KEY, RecordingJob

LOCK_MS, MARGIN_MS = 30_000, 5_000
ACCEPT = AcknowledgementBatch(0, 9, (1,))


def member(job: RecordingJob, lock_duration_ms: int = 30_000) -> MemberPartition:
    """Return a member whose fetch waits for 100 records."""
    ahead = ReadAhead(2_000, lock_duration_ms, 60_000)
    made = MemberPartition(KEY, "member", job, ahead, lambda: None, 50_000, lock_duration_ms)  # type: ignore[arg-type]
    ahead.begin_wait(0)
    made.request_records(0, 100)
    return made


def asked(job: RecordingJob) -> list[int]:
    """Return the number of records of each demand."""
    return [row.max_records for row in job.rows if isinstance(row, FetchRequest)]


def test_next_demand_is_sent_before_the_records_are_read() -> None:
    job = RecordingJob()
    part = member(job)
    job.acquire(0, 9, LOCK_MS)
    assert asked(job) == [100]  # whether the member comes back is unknown
    send(part, 0, 9)
    job.time_ms = 10
    part.read_ahead.begin_wait(10)
    part.request_records(10, 100)
    job.acquire(10, 19, LOCK_MS)
    assert asked(job) == [100, 100, 90]


def test_empty_response_causes_no_demand_before_the_next_fetch() -> None:
    job = RecordingJob()
    part = member(job)
    job.acquire(0, 9, LOCK_MS)
    send(part, 0, 9)
    part.read_ahead.begin_wait(10)
    part.request_records(10, 100)
    job.answer((), LOCK_MS)
    assert asked(job) == [100, 100]


@pytest.mark.parametrize(("lock_duration_ms", "too_late_ms"), [(30_000, 2_000), (2_000, 500)])
def test_nearly_expired_range_is_unacquired_and_short_locks_are_usable(lock_duration_ms: int, too_late_ms: int) -> None:
    job = RecordingJob()
    part = member(job, lock_duration_ms)
    job.acquire(0, 99, lock_duration_ms)
    job.rows.clear()
    part.unacquire_expiring(lock_duration_ms - too_late_ms - 1)
    assert job.rows == []
    part.unacquire_expiring(lock_duration_ms - too_late_ms)
    assert [(row.type, row.acquired) for row in job.rows] == [(UNACQUIRE, (AcquiredRange(0, 99, 1),))]


def test_records_of_a_slow_response_are_unacquired_and_not_held() -> None:
    job = RecordingJob()
    part = member(job)
    job.acquire(0, 99, LOCK_MS)
    taken = Slice([AcquiredRange(0, 9, 1)], [], [], [], 10, 0)
    assert part.deliver(taken, 0) == LOCK_MS
    job.rows.clear()
    assert not part.withdraw_if_expiring(taken, LOCK_MS, LOCK_MS - 2_001)
    batch = [AcknowledgementBatch(0, 9, (1,))]
    assert (job.rows, part.holdings.find_acknowledged(batch, 0) is None) == ([], False)
    assert part.withdraw_if_expiring(taken, LOCK_MS, LOCK_MS - 2_000)
    assert (given_back(job.rows), part.holdings.find_acknowledged(batch, 0)) == ([AcquiredRange(0, 9, 1)], None)


def given_back(rows: Iterable[SharePartitionRequest]) -> list[AcquiredRange]:
    """Return the ranges in unacquire rows."""
    return [acquired for row in rows if isinstance(row, UnacquireRequest) for acquired in row.acquired]


def send(part: MemberPartition, first: int, last: int, count: int = 1, gaps: tuple[OffsetRange, ...] = ()) -> None:
    """Return a slice with these ranges for the member; `gaps` have no records."""
    acquired = [AcquiredRange(first, last, count)] if first <= last else []
    part.deliver(Slice(acquired, [], list(gaps), [], last - first + 1, 0), 0)


def sent_ten(job: RecordingJob) -> MemberPartition:
    """Return a member that acquired 0..99 and was sent 0..9; the rows so far are cleared."""
    part = member(job)
    job.acquire(0, 99, LOCK_MS)
    send(part, 0, 9)
    job.rows.clear()
    return part


def test_release_row_lists_what_the_member_was_sent() -> None:
    job = RecordingJob()
    part = sent_ten(job)
    part.close()
    part.close()
    part.stop_fetching()
    (row,) = job.rows
    assert (row.type, row.delivered, row.requester) == (RELEASE_MEMBER, (OffsetRange(0, 9),), "gateway")


def test_records_acquired_after_the_release_are_left_to_the_job() -> None:
    job = RecordingJob()
    part = member(job)
    part.close()
    job.acquire(0, 99, LOCK_MS)
    assert [row.type for row in job.rows] == [FETCH, RELEASE_MEMBER]


def test_a_member_that_fetches_elsewhere_keeps_what_it_was_sent() -> None:
    job = RecordingJob()
    part = sent_ten(job)
    part.stop_fetching()
    part.close()
    (row,) = job.rows
    assert (row.type, row.acquired) == (UNACQUIRE, (AcquiredRange(10, 99, 1),))


def test_records_acquired_after_a_move_are_unacquired() -> None:
    job = RecordingJob()
    part = member(job)
    part.stop_fetching()
    job.acquire(0, 99, LOCK_MS)
    assert [(row.type, row.acquired) for row in job.rows[1:]] == [(UNACQUIRE, (AcquiredRange(0, 99, 1),))]


@pytest.mark.parametrize("end", [MemberPartition.close, MemberPartition.stop_fetching])
def test_no_demand_is_sent_after_the_end(end: Callable[[MemberPartition], None]) -> None:
    job = RecordingJob()
    part = MemberPartition(KEY, "member", job, ReadAhead(9, 9, 9), lambda: None, 9, 9)  # type: ignore[arg-type]
    end(part)
    job.rows.clear()
    part.read_ahead.begin_wait(0)
    part.request_records(0, 100)
    assert job.rows == []


def test_many_ranges_are_unacquired_in_rows_of_bounded_size() -> None:
    job = RecordingJob()
    part = member(job)
    job.rows.clear()
    ranges = [AcquiredRange(2 * n, 2 * n, 1) for n in range(MAX_RANGES_PER_ROW + 1)]
    part.unacquire(ranges)
    assert [len(row.acquired) for row in job.rows] == [MAX_RANGES_PER_ROW, 1]
    assert [r for row in job.rows for r in row.acquired] == ranges


# -- acknowledgements --------------------------------------------------------------------------------------------------

NOT_HELD = ErrorCode.INVALID_RECORD_STATE
NOT_KNOWN = ErrorCode.COORDINATOR_NOT_AVAILABLE
RENEW, RELEASE = 4, 2


def a_lease(deadline_ms: int = 10 * LOCK_MS) -> Lease:
    lease = Lease()
    lease.extend(deadline_ms)
    return lease


def acknowledge(
    part: MemberPartition,
    *batches: AcknowledgementBatch,
    now_ms: int = 0,
    lease: Lease | None = None,
    is_renew_ack: bool = False,
) -> asyncio.Future[tuple[int, str | None]]:
    """Acknowledge records; the rows are sent immediately."""
    outcome = part.acknowledge(batches, is_renew_ack, lease or a_lease(), now_ms, MARGIN_MS)
    return asyncio.ensure_future(outcome)


def answer_last(job: RecordingJob, code: int = 0, lock_deadline_ms: int = -1) -> None:
    """Send the job's response to the last row that has a waiting caller."""
    row = job.rows[-1]
    assert row.reply_to == "gateway"
    refused = AcknowledgeResponse(row.id, "gateway", *KEY, "member", code, lock_deadline_ms=lock_deadline_ms)
    job.answers[row.id].set_result(refused)


def run(test: Callable[[RecordingJob, MemberPartition], Awaitable[None]]) -> None:
    """Run a test with a member that was sent 0..9."""

    async def main() -> None:
        job = RecordingJob()
        await test(job, sent_ten(job))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("append_ms", "now_ms", "code"),
    [
        (LOCK_MS, 0, ErrorCode.NONE),
        (LOCK_MS + 1, 0, NOT_HELD),
        (-1, LOCK_MS, ErrorCode.NONE),  # a topic without LogAppendTime
        (-1, LOCK_MS + 1, NOT_HELD),
    ],
)
def test_acknowledgement_is_dated_by_the_append_of_its_row(append_ms: int, now_ms: int, code: ErrorCode) -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        job.append_ms, job.time_ms = append_ms, now_ms
        outcome = acknowledge(part, ACCEPT)
        ((row),) = job.rows  # before anything is awaited
        assert (row.type, row.reply_to, row.acquired) == (ACKNOWLEDGE, "", (AcquiredRange(0, 9, 1),))
        assert row.lock_deadline_ms == LOCK_MS
        assert (await outcome)[0] == code

    run(test)


def test_acknowledgement_shortly_before_lock_expiry_is_answered_by_the_job() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        outcome = acknowledge(part, ACCEPT, now_ms=LOCK_MS - MARGIN_MS)
        answer_last(job, NOT_HELD)
        assert await outcome == (NOT_HELD, None)
        assert job.rows[0].acquired == (AcquiredRange(0, 9, 1),)

    run(test)


@pytest.mark.parametrize(
    ("batch", "code"),
    [((2, 10), ErrorCode.INVALID_REQUEST), ((10, 19), ErrorCode.INVALID_REQUEST), ((3, 3), NOT_HELD)],
)
def test_acknowledgement_of_records_not_held_is_rejected_without_a_row(batch: tuple[int, int], code: ErrorCode) -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        assert (await acknowledge(part, AcknowledgementBatch(3, 3, (1,))))[0] == ErrorCode.NONE
        job.rows.clear()
        mixed = AcknowledgementBatch(0, 1, (1,)), AcknowledgementBatch(*batch, (1,))
        assert (await acknowledge(part, *mixed))[0] == code
        assert job.rows == []

    run(test)


def test_acknowledgement_after_lock_expiry_is_rejected() -> None:
    """The lock expires, and the member's own standing demand acquires the same records again."""

    async def test(job: RecordingJob, part: MemberPartition) -> None:
        part.unacquire_read_ahead()
        part.read_ahead.begin_wait(LOCK_MS)
        part.request_records(LOCK_MS, 100)
        job.acquire(0, 9, 3 * LOCK_MS, count=2)
        job.rows.clear()
        late = LOCK_MS + 1
        batches = AcknowledgementBatch(0, 4, (1,)), AcknowledgementBatch(5, 9, (RELEASE,))
        assert (await acknowledge(part, *batches, now_ms=late))[0] == NOT_HELD
        assert job.rows == []
        send(part, 0, 9, count=2)
        assert (await acknowledge(part, ACCEPT, now_ms=late))[0] == ErrorCode.NONE
        assert [row.acquired for row in job.rows] == [(AcquiredRange(0, 9, 2),)]

    run(test)


@pytest.mark.parametrize("lease_ms", [-1, MARGIN_MS])
def test_job_answers_if_the_lease_ends_within_the_margin(lease_ms: int) -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        outcome = acknowledge(part, ACCEPT, lease=a_lease(lease_ms))
        answer_last(job)
        assert await outcome == (ErrorCode.NONE, None)

    run(test)


@pytest.mark.parametrize("has_left", [False, True])
def test_append_after_the_end_of_the_lease_is_not_confirmed(has_left: bool) -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        lease = a_lease(MARGIN_MS + 1)
        job.append_ms = 0 if has_left else MARGIN_MS + 1
        outcome = acknowledge(part, ACCEPT, lease=lease)
        if has_left:
            lease.end()
        assert (await outcome)[0] == NOT_KNOWN

    run(test)


def test_member_that_left_holds_nothing() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        part.on_member_left()
        assert [(row.type, row.acquired) for row in job.rows] == [(UNACQUIRE, (AcquiredRange(10, 99, 1),))]
        assert (await acknowledge(part, ACCEPT))[0] == NOT_HELD

    run(test)


def test_records_acquired_before_a_leave_are_unacquired() -> None:
    job = RecordingJob()
    part = member(job)
    part.on_member_left()
    job.acquire(0, 99, LOCK_MS)
    assert [row.type for row in job.rows] == [FETCH, UNACQUIRE]
    assert given_back(job.rows) == [AcquiredRange(0, 99, 1)]
    assert part.read_ahead.buffered == 0
    part.request_records(1, 100)
    job.acquire(0, 99, LOCK_MS, count=2)
    assert part.read_ahead.ranges() == [AcquiredRange(0, 99, 2)]


def test_acknowledgement_that_was_not_sent_may_be_retried() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        job.append_ms = None
        assert await acknowledge(part, ACCEPT) == (NOT_KNOWN, "away")
        job.append_ms = 0
        assert (await acknowledge(part, ACCEPT))[0] == ErrorCode.NONE

    run(test)


def test_retry_of_a_possibly_appended_row_is_answered_by_the_job() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        job.fail_next = True
        assert (await acknowledge(part, ACCEPT))[0] == NOT_KNOWN
        again = acknowledge(part, ACCEPT)
        answer_last(job, NOT_HELD)
        assert (await again)[0] == NOT_HELD

    run(test)


def test_no_early_answer_while_the_job_has_a_request_for_the_records() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        first = acknowledge(part, AcknowledgementBatch(0, 4, (RELEASE,)), lease=a_lease(-1))
        second = acknowledge(part, AcknowledgementBatch(4, 5, (1,)))
        answer_last(job, NOT_HELD)
        assert (await second)[0] == NOT_HELD
        job.rows.pop()
        answer_last(job)
        assert (await first)[0] == ErrorCode.NONE
        assert (await acknowledge(part, AcknowledgementBatch(3, 3, (1,))))[0] == NOT_HELD
        third = acknowledge(part, AcknowledgementBatch(4, 4, (1,)))  # its holder depends on the order at the job
        answer_last(job, NOT_HELD)
        assert (await third)[0] == NOT_HELD
        assert (await acknowledge(part, AcknowledgementBatch(6, 9, (1,))))[0] == ErrorCode.NONE

    run(test)


def test_renewal_contains_its_ranges_and_extends_their_locks() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        outcome = acknowledge(part, AcknowledgementBatch(2, 5, (RENEW,)), is_renew_ack=True)
        assert job.rows[-1].acquired == (AcquiredRange(2, 5, 1),)
        answer_last(job, lock_deadline_ms=2 * LOCK_MS)
        assert (await outcome)[0] == ErrorCode.NONE
        assert (await acknowledge(part, AcknowledgementBatch(1, 2, (1,)), now_ms=LOCK_MS + 1))[0] == NOT_HELD
        assert (await acknowledge(part, AcknowledgementBatch(2, 5, (1,)), now_ms=LOCK_MS + 1))[0] == ErrorCode.NONE

    run(test)


def test_gaps_are_acknowledged_with_their_acquired_ranges() -> None:
    job = RecordingJob()
    part = member(job)
    job.answer((AcquiredRange(10, 49, 1), AcquiredRange(50, 120, 2)), LOCK_MS)
    job.rows.clear()
    send(part, 10, 39, gaps=(OffsetRange(40, 59), OffsetRange(100, 120)))
    ((row),) = job.rows
    assert (row.type, row.batches) == (
        ACKNOWLEDGE,
        (AcknowledgementBatch(40, 59, (0,)), AcknowledgementBatch(100, 120, (0,))),
    )
    assert row.acquired == (AcquiredRange(40, 49, 1), AcquiredRange(50, 59, 2), AcquiredRange(100, 120, 2))
    assert part.read_ahead.ranges() == [AcquiredRange(60, 99, 2)]


def test_large_acknowledgement_is_split_into_rows_with_one_outcome() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        offsets = range(1_000, 1_000 + 400_000)
        part.holdings.add([LockedRange(offsets[0], offsets[-1], 1, LOCK_MS)], 0)
        batch = AcknowledgementBatch(offsets[0], offsets[-1], tuple(1 + offset % 2 for offset in offsets))
        outcome = acknowledge(part, batch, lease=a_lease(-1))
        assert max(len(row.encode()) for row in job.rows) < MAX_ROW_BYTES
        assert tuple(types for row in job.rows for b in row.batches for types in b.acknowledge_types) == batch[2]
        rows = [*job.rows]
        for row, code in zip(rows, [0, NOT_HELD, *[0] * len(rows)], strict=False):
            job.rows = [row]
            answer_last(job, code)
        assert (await outcome)[0] == NOT_HELD

    run(test)


def test_release_of_many_ranges_fits_into_one_row() -> None:
    job = RecordingJob()
    part = sent_ten(job)
    sent = [LockedRange(100 + 2 * n, 100 + 2 * n, 1, LOCK_MS) for n in range(2 * MAX_RANGES_PER_ROW)]
    part.holdings.add(sent, 0)
    part.close()
    ahead, release = job.rows
    assert (ahead.type, ahead.acquired) == (UNACQUIRE, (AcquiredRange(10, 99, 1),))
    assert release.type == RELEASE_MEMBER
    assert release.delivered is not None
    assert len(release.delivered) <= MAX_RANGES_PER_ROW
    delivered = [(first, last) for first, last in release.delivered]
    assert all(any(first <= grant[0] <= last for first, last in delivered) for grant in sent[:: len(sent) // 7])
    assert delivered[0][0] == 0
    assert delivered[-1][1] == sent[-1].last_offset
