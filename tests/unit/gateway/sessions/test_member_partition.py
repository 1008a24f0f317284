"""One member's records of one share-partition: the rows that go to the job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.records.slicing import Slice
from sharegroup.gateway.sessions.member_leases import Lease
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.gateway.sessions.read_ahead import ReadAhead
from sharegroup.gateway.sessions.read_ahead_buffer import Grant
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
    """A member whose fetch waits for 100 records."""
    ahead = ReadAhead(2_000, lock_duration_ms, 60_000)
    made = MemberPartition(KEY, "member", job, ahead, lambda: None, 50_000, lock_duration_ms)  # type: ignore[arg-type]
    ahead.client_waits(0)
    made.ask(0, 100)
    return made


def asked(job: RecordingJob) -> list[int]:
    """How many records each demand is for."""
    return [row.max_records for row in job.rows if isinstance(row, FetchRequest)]


def test_who_reads_on_has_its_next_demand_at_the_job_before_its_records_are_read() -> None:
    job = RecordingJob()
    part = member(job)
    job.acquire(0, 9, LOCK_MS)
    assert asked(job) == [100]  # whether it comes back is not known
    send(part, 0, 9)
    job.time_ms = 10
    part.read_ahead.client_waits(10)
    part.ask(10, 100)
    job.acquire(10, 19, LOCK_MS)
    assert asked(job) == [100, 100, 90]


def test_an_answer_without_records_has_nothing_asked_until_the_member_comes_again() -> None:
    job = RecordingJob()
    part = member(job)
    job.acquire(0, 9, LOCK_MS)
    send(part, 0, 9)
    part.read_ahead.client_waits(10)
    part.ask(10, 100)
    job.answer((), LOCK_MS)
    assert asked(job) == [100, 100]


@pytest.mark.parametrize(("lock_duration_ms", "too_late_ms"), [(30_000, 2_000), (2_000, 500)])
def test_a_range_whose_lock_is_nearly_over_goes_back_and_short_locks_are_of_use(
    lock_duration_ms: int, too_late_ms: int
) -> None:
    job = RecordingJob()
    part = member(job, lock_duration_ms)
    job.acquire(0, 99, lock_duration_ms)
    job.rows.clear()
    part.expire(lock_duration_ms - too_late_ms - 1)
    assert job.rows == []
    part.expire(lock_duration_ms - too_late_ms)
    assert [(row.type, row.acquired) for row in job.rows] == [(UNACQUIRE, (AcquiredRange(0, 99, 1),))]


def test_what_was_taken_for_a_response_that_was_long_in_the_making_goes_back_and_is_not_held() -> None:
    job = RecordingJob()
    part = member(job)
    job.acquire(0, 99, LOCK_MS)
    taken = Slice([AcquiredRange(0, 9, 1)], [], [], [], 10, 0)
    assert part.take(taken, 0) == LOCK_MS
    job.rows.clear()
    assert not part.withdraw(taken, LOCK_MS, LOCK_MS - 2_001)
    batch = [AcknowledgementBatch(0, 9, (1,))]
    assert (job.rows, part.holdings.held(batch, 0) is None) == ([], False)
    assert part.withdraw(taken, LOCK_MS, LOCK_MS - 2_000)
    assert (given_back(job.rows), part.holdings.held(batch, 0)) == ([AcquiredRange(0, 9, 1)], None)


def given_back(rows: Iterable[SharePartitionRequest]) -> list[AcquiredRange]:
    """What the rows that give records back name."""
    return [acquired for row in rows if isinstance(row, UnacquireRequest) for acquired in row.acquired]


def send(part: MemberPartition, first: int, last: int, count: int = 1, gaps: tuple[OffsetRange, ...] = ()) -> None:
    """These go to the member; `gaps` have no records."""
    acquired = [AcquiredRange(first, last, count)] if first <= last else []
    part.take(Slice(acquired, [], list(gaps), [], last - first + 1, 0), 0)


def sent_ten(job: RecordingJob) -> MemberPartition:
    """A member that was granted 0..99 and sent 0..9; nothing is noted so far."""
    part = member(job)
    job.acquire(0, 99, LOCK_MS)
    send(part, 0, 9)
    job.rows.clear()
    return part


def test_a_member_that_goes_says_what_it_was_sent() -> None:
    job = RecordingJob()
    part = sent_ten(job)
    part.close()
    part.close()
    part.leave()
    (row,) = job.rows
    assert (row.type, row.delivered, row.requester) == (RELEASE_MEMBER, (OffsetRange(0, 9),), "gateway")


def test_what_is_granted_after_the_end_is_the_jobs_to_take_back() -> None:
    job = RecordingJob()
    part = member(job)
    part.close()
    job.acquire(0, 99, LOCK_MS)
    assert [row.type for row in job.rows] == [FETCH, RELEASE_MEMBER]


def test_a_member_that_fetches_elsewhere_keeps_what_it_was_sent() -> None:
    job = RecordingJob()
    part = sent_ten(job)
    part.leave()
    part.close()
    (row,) = job.rows
    assert (row.type, row.acquired) == (UNACQUIRE, (AcquiredRange(10, 99, 1),))


def test_what_is_granted_after_it_went_elsewhere_goes_back() -> None:
    job = RecordingJob()
    part = member(job)
    part.leave()
    job.acquire(0, 99, LOCK_MS)
    assert [(row.type, row.acquired) for row in job.rows[1:]] == [(UNACQUIRE, (AcquiredRange(0, 99, 1),))]


@pytest.mark.parametrize("end", [MemberPartition.close, MemberPartition.leave])
def test_nothing_is_asked_for_after_the_end(end: Callable[[MemberPartition], None]) -> None:
    job = RecordingJob()
    part = MemberPartition(KEY, "member", job, ReadAhead(9, 9, 9), lambda: None, 9, 9)  # type: ignore[arg-type]
    end(part)
    job.rows.clear()
    part.read_ahead.client_waits(0)
    part.ask(0, 100)
    assert job.rows == []


def test_many_ranges_go_back_in_rows_of_bounded_size() -> None:
    job = RecordingJob()
    part = member(job)
    job.rows.clear()
    ranges = [AcquiredRange(2 * n, 2 * n, 1) for n in range(MAX_RANGES_PER_ROW + 1)]
    part.give_back(ranges)
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
    """Acknowledge; the rows are sent now."""
    outcome = part.acknowledge(batches, is_renew_ack, lease or a_lease(), now_ms, MARGIN_MS)
    return asyncio.ensure_future(outcome)


def answer_last(job: RecordingJob, code: int = 0, lock_deadline_ms: int = -1) -> None:
    """The job's answer to the last row that somebody waits for."""
    row = job.rows[-1]
    assert row.reply_to == "gateway"
    refused = AcknowledgeResponse(row.id, "gateway", *KEY, "member", code, lock_deadline_ms=lock_deadline_ms)
    job.answers[row.id].set_result(refused)


def run(test: Callable[[RecordingJob, MemberPartition], Awaitable[None]]) -> None:
    """A test of a member that was sent 0..9."""

    async def main() -> None:
        job = RecordingJob()
        await test(job, sent_ten(job))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("append_ms", "now_ms", "code"),
    [
        (LOCK_MS, 0, ErrorCode.NONE),
        (LOCK_MS + 1, 0, NOT_HELD),
        (-1, LOCK_MS, ErrorCode.NONE),  # a topic that does not keep the time of its appends
        (-1, LOCK_MS + 1, NOT_HELD),
    ],
)
def test_an_acknowledgement_is_in_time_when_its_row_was_appended_in_time(
    append_ms: int, now_ms: int, code: ErrorCode
) -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        job.append_ms, job.time_ms = append_ms, now_ms
        outcome = acknowledge(part, ACCEPT)
        ((row),) = job.rows  # before anything is waited for
        assert (row.type, row.reply_to, row.acquired) == (ACKNOWLEDGE, "", (AcquiredRange(0, 9, 1),))
        assert row.lock_deadline_ms == LOCK_MS
        assert (await outcome)[0] == code

    run(test)


def test_an_acknowledgement_with_little_time_left_is_the_jobs_to_answer() -> None:
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
def test_what_the_member_was_not_sent_or_has_settled_is_refused_as_a_whole_and_the_job_hears_nothing(
    batch: tuple[int, int], code: ErrorCode
) -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        assert (await acknowledge(part, AcknowledgementBatch(3, 3, (1,))))[0] == ErrorCode.NONE
        job.rows.clear()
        mixed = AcknowledgementBatch(0, 1, (1,)), AcknowledgementBatch(*batch, (1,))
        assert (await acknowledge(part, *mixed))[0] == code
        assert job.rows == []

    run(test)


def test_what_comes_after_its_lock_is_refused_whatever_was_granted_since() -> None:
    """The lock ends, and the member's own demand that stands at the job is granted the same records again."""

    async def test(job: RecordingJob, part: MemberPartition) -> None:
        part.idle()
        part.read_ahead.client_waits(LOCK_MS)
        part.ask(LOCK_MS, 100)
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
def test_without_a_lease_that_outlasts_the_margin_the_job_answers(lease_ms: int) -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        outcome = acknowledge(part, ACCEPT, lease=a_lease(lease_ms))
        answer_last(job)
        assert await outcome == (ErrorCode.NONE, None)

    run(test)


@pytest.mark.parametrize("has_left", [False, True])
def test_an_append_after_the_end_of_the_lease_is_no_success(has_left: bool) -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        lease = a_lease(MARGIN_MS + 1)
        job.append_ms = 0 if has_left else MARGIN_MS + 1
        outcome = acknowledge(part, ACCEPT, lease=lease)
        if has_left:
            lease.end()
        assert (await outcome)[0] == NOT_KNOWN

    run(test)


def test_when_the_member_has_left_nothing_that_it_had_counts() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        part.member_left()
        assert [(row.type, row.acquired) for row in job.rows] == [(UNACQUIRE, (AcquiredRange(10, 99, 1),))]
        assert (await acknowledge(part, ACCEPT))[0] == NOT_HELD

    run(test)


def test_a_grant_from_before_the_member_left_goes_back_when_it_comes() -> None:
    job = RecordingJob()
    part = member(job)
    part.member_left()
    job.acquire(0, 99, LOCK_MS)
    assert [row.type for row in job.rows] == [FETCH, UNACQUIRE]
    assert given_back(job.rows) == [AcquiredRange(0, 99, 1)]
    assert part.read_ahead.buffered == 0
    part.ask(1, 100)
    job.acquire(0, 99, LOCK_MS, count=2)
    assert part.read_ahead.ranges() == [AcquiredRange(0, 99, 2)]


def test_what_cannot_be_sent_may_be_sent_again() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        job.append_ms = None
        assert await acknowledge(part, ACCEPT) == (NOT_KNOWN, "away")
        job.append_ms = 0
        assert (await acknowledge(part, ACCEPT))[0] == ErrorCode.NONE

    run(test)


def test_what_may_be_in_the_log_is_the_jobs_to_answer_when_it_is_sent_again() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        job.fail_next = True
        assert (await acknowledge(part, ACCEPT))[0] == NOT_KNOWN
        again = acknowledge(part, ACCEPT)
        answer_last(job, NOT_HELD)
        assert (await again)[0] == NOT_HELD

    run(test)


def test_nothing_is_answered_early_while_the_job_decides_about_the_same_records() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        first = acknowledge(part, AcknowledgementBatch(0, 4, (RELEASE,)), lease=a_lease(-1))
        second = acknowledge(part, AcknowledgementBatch(4, 5, (1,)))
        answer_last(job, NOT_HELD)
        assert (await second)[0] == NOT_HELD
        job.rows.pop()
        answer_last(job)
        assert (await first)[0] == ErrorCode.NONE
        assert (await acknowledge(part, AcknowledgementBatch(3, 3, (1,))))[0] == NOT_HELD
        third = acknowledge(part, AcknowledgementBatch(4, 4, (1,)))  # who holds it depends on the order at the job
        answer_last(job, NOT_HELD)
        assert (await third)[0] == NOT_HELD
        assert (await acknowledge(part, AcknowledgementBatch(6, 9, (1,))))[0] == ErrorCode.NONE

    run(test)


def test_a_renewal_carries_its_grants_and_what_it_renews_is_held_for_longer() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        outcome = acknowledge(part, AcknowledgementBatch(2, 5, (RENEW,)), is_renew_ack=True)
        assert job.rows[-1].acquired == (AcquiredRange(2, 5, 1),)
        answer_last(job, lock_deadline_ms=2 * LOCK_MS)
        assert (await outcome)[0] == ErrorCode.NONE
        assert (await acknowledge(part, AcknowledgementBatch(1, 2, (1,)), now_ms=LOCK_MS + 1))[0] == NOT_HELD
        assert (await acknowledge(part, AcknowledgementBatch(2, 5, (1,)), now_ms=LOCK_MS + 1))[0] == ErrorCode.NONE

    run(test)


def test_gaps_are_acknowledged_with_their_grants() -> None:
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


def test_an_acknowledgement_that_is_too_large_goes_in_several_rows_with_one_outcome() -> None:
    async def test(job: RecordingJob, part: MemberPartition) -> None:
        offsets = range(1_000, 1_000 + 400_000)
        part.holdings.handed_out([Grant(offsets[0], offsets[-1], 1, LOCK_MS)], 0)
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


def test_a_member_that_goes_with_a_great_many_ranges_says_so_in_a_row_that_fits() -> None:
    job = RecordingJob()
    part = sent_ten(job)
    sent = [Grant(100 + 2 * n, 100 + 2 * n, 1, LOCK_MS) for n in range(2 * MAX_RANGES_PER_ROW)]
    part.holdings.handed_out(sent, 0)
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
