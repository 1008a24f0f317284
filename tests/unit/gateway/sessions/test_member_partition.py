"""One member's records of one share-partition: the rows that are sent to the job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sharegroup.errors import ErrorCode
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
)
from sharegroup.types import AcknowledgementBatch, AcquiredRange, OffsetRange
from tests.harness.event_loop import EventLoop
from tests.unit.gateway.conversation import Job, acknowledging, sliced
from tests.unit.gateway.recording_job import KEY, LOCK_MS

MARGIN_MS = 5_000
NOT_HELD = ErrorCode.INVALID_RECORD_STATE
NOT_KNOWN = ErrorCode.COORDINATOR_NOT_AVAILABLE
RENEW, RELEASE = 4, 2
ACCEPT = acknowledging(0, 9)


class Member(MemberPartition):
    """A member whose fetch waits for 100 records."""

    def __init__(self, job: Job, loop: EventLoop, lock_duration_ms: int = LOCK_MS) -> None:
        ahead = ReadAhead(2_000, lock_duration_ms, 60_000)
        super().__init__(KEY, "member", job, ahead, lambda: None, 50_000, lock_duration_ms)  # type: ignore[arg-type]
        self._loop, self._recorded = loop, job
        self.fetch(0)

    def fetch(self, now_ms: int) -> None:
        """Wait for 100 records."""
        self.read_ahead.begin_wait(now_ms)
        self.request_records(now_ms, 100)

    def is_sent(self, first: int, last: int, **more: Any) -> None:
        """Deliver these records."""
        self.deliver(sliced(first, last, **more), 0)

    def send(
        self, *batches: AcknowledgementBatch, now_ms: int = 0, lease: Lease | None = None, is_renew_ack: bool = False
    ) -> None:
        """Acknowledge; `rows_at_once` is the number of rows that are sent before anything is awaited."""

        def acknowledge() -> Awaitable[tuple[int, str | None]]:
            rows = len(self._recorded.rows)
            outcome = self.acknowledge(batches, is_renew_ack, lease or a_lease(), now_ms, MARGIN_MS)
            self.rows_at_once = len(self._recorded.rows) - rows
            return outcome

        self.outcome = self._loop.call(acknowledge)

    def receive(self) -> int:
        """Wait for the error code of the acknowledgement that was sent last; sets `message`."""
        code, self.message = self._loop.finish(self.outcome)
        return code


def a_lease(deadline_ms: int = 10 * LOCK_MS) -> Lease:
    lease = Lease()
    lease.extend(deadline_ms)
    return lease


@pytest.fixture
def job(loop: EventLoop) -> Job:
    return Job(loop)


@pytest.fixture
def waiting(job: Job, loop: EventLoop) -> Member:
    """Return a member that was sent nothing."""
    return Member(job, loop)


@pytest.fixture
def holder(waiting: Member, job: Job) -> Member:
    """Return a member that acquired 0 to 99 and was sent 0 to 9."""
    job.acquire(0, 99)
    waiting.is_sent(0, 9)
    job.unread()
    return waiting


def kinds_and_ranges(job: Job) -> list[tuple[str, list[AcquiredRange]]]:
    """Return (type, acquired ranges) of the rows that are not read yet."""
    return [(row.type, list(row.acquired)) for row in job.unread()]


def demanded(job: Job) -> list[int]:
    """Return the number of records of each demand."""
    return [row.max_records for row in job.rows if row.type == FETCH]


def test_next_demand_is_sent_before_the_records_are_read(waiting: Member, job: Job) -> None:
    job.acquire(0, 9)
    assert demanded(job) == [100]  # whether the member comes back is unknown
    waiting.is_sent(0, 9)
    job.time_ms = 10
    waiting.fetch(10)
    job.acquire(10, 19)
    assert demanded(job) == [100, 100, 90]


def test_empty_response_causes_no_demand_before_the_next_fetch(waiting: Member, job: Job) -> None:
    job.acquire(0, 9)
    waiting.is_sent(0, 9)
    waiting.fetch(10)
    job.answer(job.rows[-1], lock_deadline_ms=LOCK_MS)
    assert demanded(job) == [100, 100]


@pytest.mark.parametrize(("lock_duration_ms", "too_late_ms"), [(30_000, 2_000), (2_000, 500)])
def test_nearly_expired_range_is_unacquired_and_short_locks_are_usable(
    job: Job, loop: EventLoop, lock_duration_ms: int, too_late_ms: int
) -> None:
    member = Member(job, loop, lock_duration_ms)
    job.acquire(0, 99, lock_duration_ms)
    job.unread()
    member.unacquire_expiring(lock_duration_ms - too_late_ms - 1)
    assert job.unread() == []
    member.unacquire_expiring(lock_duration_ms - too_late_ms)
    assert kinds_and_ranges(job) == [(UNACQUIRE, [(0, 99, 1)])]


def test_records_of_a_slow_response_are_unacquired_and_not_held(waiting: Member, job: Job) -> None:
    job.acquire(0, 99)
    assert waiting.deliver(sliced(0, 9), 0) == LOCK_MS
    job.unread()
    assert not waiting.withdraw_if_expiring(sliced(0, 9), LOCK_MS, LOCK_MS - 2_001)
    assert (job.unread(), waiting.holdings.find_acknowledged([ACCEPT], 0) is None) == ([], False)
    assert waiting.withdraw_if_expiring(sliced(0, 9), LOCK_MS, LOCK_MS - 2_000)
    assert kinds_and_ranges(job) == [(UNACQUIRE, [(0, 9, 1)])]
    assert waiting.holdings.find_acknowledged([ACCEPT], 0) is None


def test_release_row_lists_what_the_member_was_sent(holder: Member, job: Job) -> None:
    holder.close()
    holder.close()
    holder.stop_fetching()
    (row,) = job.unread()
    assert (row.type, row.delivered, row.requester) == (RELEASE_MEMBER, (OffsetRange(0, 9),), "gateway")


def test_records_acquired_after_the_release_are_left_to_the_job(waiting: Member, job: Job) -> None:
    waiting.close()
    assert job.subscriptions == 0  # so nothing that the job acquires now is returned a second time
    assert [row.type for row in job.unread()] == [FETCH, RELEASE_MEMBER]


def test_demand_without_a_response_leaves_no_subscription(waiting: Member, job: Job) -> None:
    waiting.read_ahead.mark_demand_lost()  # another job leads, which does not know the demand
    waiting.close()
    assert job.subscriptions == 0


def test_a_member_that_fetches_elsewhere_keeps_what_it_was_sent(holder: Member, job: Job) -> None:
    holder.stop_fetching()
    holder.close()
    assert kinds_and_ranges(job) == [(UNACQUIRE, [(10, 99, 1)])]


def test_records_acquired_after_a_move_are_unacquired(waiting: Member, job: Job) -> None:
    job.receive(FETCH)
    waiting.stop_fetching()
    assert job.receive(FETCH).max_records == 0
    job.acquire(0, 99)
    assert kinds_and_ranges(job) == [(UNACQUIRE, [(0, 99, 1)])]


@pytest.mark.parametrize("end", [MemberPartition.forget, MemberPartition.stop_fetching, MemberPartition.drain])
def test_demand_is_cancelled_when_the_member_stops_fetching(
    waiting: Member, job: Job, end: Callable[[MemberPartition], None]
) -> None:
    job.receive(FETCH)
    end(waiting)
    end(waiting)
    (row,) = job.unread()
    assert (row.type, row.max_records, row.reply_to) == (FETCH, 0, "gateway")


def test_a_forgotten_partition_can_be_fetched_again(waiting: Member, job: Job) -> None:
    waiting.forget()
    job.unread()
    waiting.fetch(0)
    assert [(row.type, row.max_records > 0) for row in job.unread()] == [(FETCH, True)]


@pytest.mark.parametrize("end", [MemberPartition.close, MemberPartition.stop_fetching])
def test_no_demand_is_sent_after_the_end(job: Job, end: Callable[[MemberPartition], None]) -> None:
    part = MemberPartition(KEY, "member", job, ReadAhead(9, 9, 9), lambda: None, 9, 9)  # type: ignore[arg-type]
    end(part)
    job.unread()
    part.read_ahead.begin_wait(0)
    part.request_records(0, 100)
    assert job.unread() == []


def test_many_ranges_are_unacquired_in_rows_of_bounded_size(waiting: Member, job: Job) -> None:
    job.receive(FETCH)
    ranges = [AcquiredRange(2 * n, 2 * n, 1) for n in range(MAX_RANGES_PER_ROW + 1)]
    waiting.unacquire(ranges)
    assert kinds_and_ranges(job) == [(UNACQUIRE, ranges[:-1]), (UNACQUIRE, ranges[-1:])]


# -- acknowledgements --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("append_ms", "now_ms", "code"),
    [
        (LOCK_MS, 0, ErrorCode.NONE),
        (LOCK_MS + 1, 0, NOT_HELD),
        (-1, LOCK_MS, ErrorCode.NONE),  # a topic without LogAppendTime
        (-1, LOCK_MS + 1, NOT_HELD),
    ],
)
def test_acknowledgement_is_dated_by_the_append_of_its_row(
    holder: Member, job: Job, append_ms: int, now_ms: int, code: ErrorCode
) -> None:
    job.append_ms, job.time_ms = append_ms, now_ms
    holder.send(ACCEPT)
    assert holder.rows_at_once == 1
    row = job.receive(ACKNOWLEDGE)
    assert (row.reply_to, row.acquired, row.lock_deadline_ms) == ("", (AcquiredRange(0, 9, 1),), LOCK_MS)
    assert holder.receive() == code


def test_acknowledgement_shortly_before_lock_expiry_is_answered_by_the_job(holder: Member, job: Job) -> None:
    holder.send(ACCEPT, now_ms=LOCK_MS - MARGIN_MS)
    row = job.receive(ACKNOWLEDGE)
    assert row.acquired == (AcquiredRange(0, 9, 1),)
    job.answer(row, error_code=NOT_HELD)
    assert (holder.receive(), holder.message) == (NOT_HELD, None)


@pytest.mark.parametrize(
    ("batch", "code"),
    [((2, 10), ErrorCode.INVALID_REQUEST), ((10, 19), ErrorCode.INVALID_REQUEST), ((3, 3), NOT_HELD)],
)
def test_acknowledgement_of_records_not_held_is_rejected_without_a_row(
    holder: Member, job: Job, batch: tuple[int, int], code: ErrorCode
) -> None:
    holder.send(acknowledging(3, 3))
    assert holder.receive() == ErrorCode.NONE
    job.receive(ACKNOWLEDGE)
    holder.send(acknowledging(0, 1), acknowledging(*batch))
    assert holder.receive() == code
    assert job.unread() == []


def test_acknowledgement_after_lock_expiry_is_rejected(holder: Member, job: Job) -> None:
    """The lock expires, and the member's own standing demand acquires the same records again."""
    holder.unacquire_read_ahead()
    holder.fetch(LOCK_MS)
    job.acquire(0, 9, 3 * LOCK_MS, count=2)
    job.unread()
    holder.send(acknowledging(0, 4), acknowledging(5, 9, RELEASE), now_ms=LOCK_MS + 1)
    assert holder.receive() == NOT_HELD
    assert job.unread() == []
    holder.is_sent(0, 9, count=2)
    holder.send(ACCEPT, now_ms=LOCK_MS + 1)
    assert holder.receive() == ErrorCode.NONE
    assert kinds_and_ranges(job) == [(ACKNOWLEDGE, [(0, 9, 2)])]


@pytest.mark.parametrize("lease_ms", [-1, MARGIN_MS])
def test_job_answers_if_the_lease_ends_within_the_margin(holder: Member, job: Job, lease_ms: int) -> None:
    holder.send(ACCEPT, lease=a_lease(lease_ms))
    job.answer(job.receive(ACKNOWLEDGE))
    assert (holder.receive(), holder.message) == (ErrorCode.NONE, None)


@pytest.mark.parametrize("has_left", [False, True])
def test_append_after_the_end_of_the_lease_is_not_confirmed(holder: Member, job: Job, has_left: bool) -> None:
    lease = a_lease(MARGIN_MS + 1)
    job.append_ms = 0 if has_left else MARGIN_MS + 1
    holder.send(ACCEPT, lease=lease)
    if has_left:
        lease.end()
    assert holder.receive() == NOT_KNOWN


def test_member_that_left_holds_nothing(holder: Member, job: Job) -> None:
    holder.on_member_left()
    assert kinds_and_ranges(job) == [(UNACQUIRE, [(10, 99, 1)])]
    holder.send(ACCEPT)
    assert holder.receive() == NOT_HELD


def test_records_acquired_before_a_leave_are_unacquired(waiting: Member, job: Job) -> None:
    job.receive(FETCH)
    waiting.on_member_left()
    job.acquire(0, 99)
    assert kinds_and_ranges(job) == [(UNACQUIRE, [(0, 99, 1)])]
    assert waiting.read_ahead.buffered == 0
    waiting.request_records(1, 100)
    job.acquire(0, 99, count=2)
    assert waiting.read_ahead.ranges() == [AcquiredRange(0, 99, 2)]


def test_acknowledgement_that_was_not_sent_may_be_retried(holder: Member, job: Job) -> None:
    job.append_ms = None
    holder.send(ACCEPT)
    assert (holder.receive(), holder.message) == (NOT_KNOWN, "away")
    job.append_ms = 0
    holder.send(ACCEPT)
    assert holder.receive() == ErrorCode.NONE


def test_retry_of_a_possibly_appended_row_is_answered_by_the_job(holder: Member, job: Job) -> None:
    job.fail_next = True
    holder.send(ACCEPT)
    assert holder.receive() == NOT_KNOWN
    job.receive(ACKNOWLEDGE)
    holder.send(ACCEPT)
    job.answer(job.receive(ACKNOWLEDGE), error_code=NOT_HELD)
    assert holder.receive() == NOT_HELD


def test_no_early_answer_while_the_job_has_a_request_for_the_records(holder: Member, job: Job, loop: EventLoop) -> None:
    holder.send(acknowledging(0, 4, RELEASE), lease=a_lease(-1))
    first, first_row = holder.outcome, job.receive(ACKNOWLEDGE)
    holder.send(acknowledging(4, 5))
    job.answer(job.receive(ACKNOWLEDGE), error_code=NOT_HELD)
    assert holder.receive() == NOT_HELD
    job.answer(first_row)
    assert loop.finish(first)[0] == ErrorCode.NONE
    holder.send(acknowledging(3, 3))
    assert holder.receive() == NOT_HELD
    holder.send(acknowledging(4, 4))  # its holder depends on the order at the job
    job.answer(job.receive(ACKNOWLEDGE), error_code=NOT_HELD)
    assert holder.receive() == NOT_HELD
    holder.send(acknowledging(6, 9))
    assert holder.receive() == ErrorCode.NONE


def test_renewal_contains_its_ranges_and_extends_their_locks(holder: Member, job: Job) -> None:
    holder.send(acknowledging(2, 5, RENEW), is_renew_ack=True)
    row = job.receive(ACKNOWLEDGE)
    assert row.acquired == (AcquiredRange(2, 5, 1),)
    job.answer(row, lock_deadline_ms=2 * LOCK_MS)
    assert holder.receive() == ErrorCode.NONE
    holder.send(acknowledging(1, 2), now_ms=LOCK_MS + 1)
    assert holder.receive() == NOT_HELD
    holder.send(acknowledging(2, 5), now_ms=LOCK_MS + 1)
    assert holder.receive() == ErrorCode.NONE


def test_gaps_are_acknowledged_with_their_acquired_ranges(waiting: Member, job: Job) -> None:
    acquired = AcquiredRange(10, 49, 1), AcquiredRange(50, 120, 2)
    job.answer(job.receive(FETCH), acquired=acquired, lock_deadline_ms=LOCK_MS)
    waiting.is_sent(10, 39, gaps=(OffsetRange(40, 59), OffsetRange(100, 120)))
    row = job.receive(ACKNOWLEDGE)
    assert row.batches == (acknowledging(40, 59, 0), acknowledging(100, 120, 0))
    assert row.acquired == (AcquiredRange(40, 49, 1), AcquiredRange(50, 59, 2), AcquiredRange(100, 120, 2))
    assert job.unread() == []
    assert waiting.read_ahead.ranges() == [AcquiredRange(60, 99, 2)]


def test_large_acknowledgement_is_split_into_rows_with_one_outcome(holder: Member, job: Job) -> None:
    offsets = range(1_000, 1_000 + 400_000)
    holder.holdings.add([LockedRange(offsets[0], offsets[-1], 1, LOCK_MS)], 0)
    batch = acknowledging(offsets[0], offsets[-1], *(1 + offset % 2 for offset in offsets))
    holder.send(batch, lease=a_lease(-1))
    rows = job.unread()
    assert max(len(row.encode()) for row in rows) < MAX_ROW_BYTES
    assert tuple(types for row in rows for b in row.batches for types in b.acknowledge_types) == batch[2]
    for row, code in zip(rows, [0, NOT_HELD, *[0] * len(rows)], strict=False):
        job.answer(row, error_code=code)
    assert holder.receive() == NOT_HELD


def test_release_of_many_ranges_fits_into_one_row(holder: Member, job: Job) -> None:
    sent = [LockedRange(100 + 2 * n, 100 + 2 * n, 1, LOCK_MS) for n in range(2 * MAX_RANGES_PER_ROW)]
    holder.holdings.add(sent, 0)
    holder.close()
    ahead, release = job.unread()
    assert (ahead.type, ahead.acquired) == (UNACQUIRE, (AcquiredRange(10, 99, 1),))
    assert release.type == RELEASE_MEMBER
    assert len(release.delivered) <= MAX_RANGES_PER_ROW
    delivered = [(first, last) for first, last in release.delivered]
    assert all(any(first <= grant[0] <= last for first, last in delivered) for grant in sent[:: len(sent) // 7])
    assert delivered[0][0] == 0
    assert delivered[-1][1] == sent[-1].last_offset
