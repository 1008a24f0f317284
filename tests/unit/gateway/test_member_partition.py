"""One member's records of one share-partition: the rows that go to the job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.member_partition import MemberPartition
from sharegroup.gateway.read_ahead import ReadAhead
from sharegroup.protocol.request_rows import ACKNOWLEDGE, FETCH, MAX_RANGES_PER_ROW, RELEASE_MEMBER, UNACQUIRE
from sharegroup.protocol.response_rows import SharePartitionResponse
from sharegroup.types import AcknowledgementBatch, AcquiredRange, OffsetRange
from tests.unit.gateway.recording_engine import KEY, RecordingEngine

LOCK_MS = 30_000
ACCEPT = AcknowledgementBatch(0, 9, (1,))


def member(engine: RecordingEngine, lock_duration_ms: int = 30_000) -> MemberPartition:
    """A member whose fetch waits for 100 records."""
    ahead = ReadAhead(2_000, lock_duration_ms, 60_000)
    made = MemberPartition(KEY, "member", engine, ahead, lambda: None, 50_000, lock_duration_ms)  # type: ignore[arg-type]
    ahead.dry(0)
    made.ask(0, 100)
    return made


@pytest.mark.parametrize(("lock_duration_ms", "too_late_ms"), [(30_000, 2_000), (2_000, 500)])
def test_a_range_whose_lock_is_nearly_over_goes_back_and_short_locks_are_of_use(
    lock_duration_ms: int, too_late_ms: int
) -> None:
    engine = RecordingEngine()
    part = member(engine, lock_duration_ms)
    engine.acquire(0, 99, lock_duration_ms)
    engine.rows.clear()
    part.expire(lock_duration_ms - too_late_ms - 1)
    assert engine.rows == []
    part.expire(lock_duration_ms - too_late_ms)
    assert [(row.type, row.acquired) for row in engine.rows] == [(UNACQUIRE, (AcquiredRange(0, 99, 1),))]


def sent_ten(engine: RecordingEngine) -> MemberPartition:
    """A member that was granted 0..99 and sent 0..9; nothing is noted so far."""
    part = member(engine)
    engine.acquire(0, 99, LOCK_MS)
    sent = (AcquiredRange(0, 9, 1),)
    deadline_ms = part.read_ahead.take(sent, (), 0)
    assert deadline_ms is not None
    part.handed_out(sent, deadline_ms, 0)
    engine.rows.clear()
    return part


def test_a_member_that_goes_says_what_it_was_sent() -> None:
    engine = RecordingEngine()
    part = sent_ten(engine)
    part.close()
    part.close()
    part.leave()
    (row,) = engine.rows
    assert (row.type, row.delivered, row.requester) == (RELEASE_MEMBER, (OffsetRange(0, 9),), "gateway")


def test_what_is_granted_after_the_end_is_the_jobs_to_take_back() -> None:
    engine = RecordingEngine()
    part = member(engine)
    part.close()
    engine.acquire(0, 99, LOCK_MS)
    assert [row.type for row in engine.rows] == [FETCH, RELEASE_MEMBER]


def test_a_member_that_fetches_elsewhere_keeps_what_it_was_sent() -> None:
    engine = RecordingEngine()
    part = sent_ten(engine)
    part.leave()
    part.close()
    (row,) = engine.rows
    assert (row.type, row.acquired) == (UNACQUIRE, (AcquiredRange(10, 99, 1),))


def test_what_is_granted_after_it_went_elsewhere_goes_back() -> None:
    engine = RecordingEngine()
    part = member(engine)
    part.leave()
    engine.acquire(0, 99, LOCK_MS)
    assert [(row.type, row.acquired) for row in engine.rows[1:]] == [(UNACQUIRE, (AcquiredRange(0, 99, 1),))]


@pytest.mark.parametrize("end", [MemberPartition.close, MemberPartition.leave])
def test_nothing_is_asked_for_after_the_end(end: Callable[[MemberPartition], None]) -> None:
    engine = RecordingEngine()
    part = MemberPartition(KEY, "member", engine, ReadAhead(9, 9, 9), lambda: None, 9, 9)  # type: ignore[arg-type]
    end(part)
    engine.rows.clear()
    part.read_ahead.dry(0)
    part.ask(0, 100)
    assert engine.rows == []


def test_many_ranges_go_back_in_rows_of_bounded_size() -> None:
    engine = RecordingEngine()
    part = member(engine)
    engine.rows.clear()
    ranges = [AcquiredRange(2 * n, 2 * n, 1) for n in range(MAX_RANGES_PER_ROW + 1)]
    part.give_back(ranges)
    assert [len(row.acquired) for row in engine.rows] == [MAX_RANGES_PER_ROW, 1]
    assert [r for row in engine.rows for r in row.acquired] == ranges


# -- acknowledgements --------------------------------------------------------------------------------------------------


async def acknowledged(part: MemberPartition, engine: RecordingEngine, now_ms: int) -> tuple[int, str | None]:
    outcome = part.acknowledge([ACCEPT], False, now_ms, 5_000)
    assert [row.type for row in engine.rows] == [ACKNOWLEDGE]  # before anything is waited for
    return await outcome


@pytest.mark.parametrize(
    ("append_ms", "now_ms", "code"),
    [
        (LOCK_MS, 0, ErrorCode.NONE),
        (LOCK_MS + 1, 0, ErrorCode.INVALID_RECORD_STATE),
        (-1, LOCK_MS, ErrorCode.NONE),  # a topic that does not keep the time of its appends
        (-1, LOCK_MS + 1, ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_an_acknowledgement_is_in_time_when_its_row_was_appended_in_time(
    append_ms: int, now_ms: int, code: ErrorCode
) -> None:
    async def test() -> None:
        engine = RecordingEngine()
        part = sent_ten(engine)
        engine.append_ms, engine.time_ms = append_ms, now_ms
        assert (await acknowledged(part, engine, 0))[0] == code

    asyncio.run(test())


def test_an_acknowledgement_with_little_time_left_is_the_jobs_to_answer() -> None:
    async def test() -> None:
        engine = RecordingEngine()
        part = sent_ten(engine)
        outcome = asyncio.ensure_future(acknowledged(part, engine, LOCK_MS - 5_000))
        while not engine.answers:
            await asyncio.sleep(0)
        ((request_id, answer),) = engine.answers.items()
        assert engine.rows[0].reply_to == "gateway"
        refused = SharePartitionResponse(ACKNOWLEDGE, request_id, "gateway", *KEY, "member", 121, "too late")
        answer.set_result(refused)
        assert await outcome == (121, "too late")

    asyncio.run(test())


def test_an_acknowledgement_that_cannot_be_sent_may_be_sent_again() -> None:
    async def test() -> None:
        engine = RecordingEngine()
        part = sent_ten(engine)
        engine.append_ms = None
        code, message = await part.acknowledge([ACCEPT], False, 0, 5_000)
        assert (code, message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "away")

    asyncio.run(test())
