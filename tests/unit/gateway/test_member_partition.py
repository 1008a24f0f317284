"""One member's records of one share-partition: the rows that go to the job."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from sharegroup.gateway.member_partition import MemberPartition
from sharegroup.gateway.read_ahead import ReadAhead
from sharegroup.protocol.request_rows import FETCH, RELEASE_MEMBER, UNACQUIRE, SharePartitionRequest
from sharegroup.protocol.response_rows import Response, SharePartitionResponse
from sharegroup.types import AcquiredRange, OffsetRange, SharePartitionKey

KEY = SharePartitionKey("group", "orders", 0)


class Engine:
    """The rows that were sent, and the demands to be answered."""

    reply_to = "gateway"

    def __init__(self) -> None:
        self.rows: list[SharePartitionRequest] = []
        self.time_ms = 0
        self._ids = itertools.count()
        self._subscribers: dict[str, Callable[[Response], None]] = {}

    def new_id(self) -> str:
        return str(next(self._ids))

    def now_ms(self) -> int:
        return self.time_ms

    def append_soon(self, row: SharePartitionRequest, failed: Any = None) -> None:
        self.rows.append(row)

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        self._subscribers[request_id] = receive

    def acquire(self, first: int, last: int, lock_deadline_ms: int) -> None:
        """The job's answer to the last demand."""
        demand = self.rows[-1]
        assert demand.type == FETCH
        answer = SharePartitionResponse(
            demand.type, demand.id, demand.reply_to, *KEY, demand.member_id,
            acquired=(AcquiredRange(first, last, 1),), lock_deadline_ms=lock_deadline_ms,
        )  # fmt: skip
        self._subscribers.pop(demand.id)(answer)


def member(engine: Engine, lock_duration_ms: int = 30_000) -> MemberPartition:
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
    engine = Engine()
    part = member(engine, lock_duration_ms)
    engine.acquire(0, 99, lock_duration_ms)
    engine.rows.clear()
    part.expire(lock_duration_ms - too_late_ms - 1)
    assert engine.rows == []
    part.expire(lock_duration_ms - too_late_ms)
    assert [(row.type, row.ranges) for row in engine.rows] == [(UNACQUIRE, (OffsetRange(0, 99),))]


def test_a_member_that_goes_says_what_it_was_sent() -> None:
    engine = Engine()
    part = member(engine)
    engine.acquire(0, 99, 30_000)
    sent = (AcquiredRange(0, 9, 1),)
    deadline_ms = part.read_ahead.take(sent, (), 0)
    assert deadline_ms is not None
    part.handed_out(sent, deadline_ms, 0)
    engine.rows.clear()
    part.close()
    part.close()
    assert [(row.type, row.delivered) for row in engine.rows] == [(RELEASE_MEMBER, (OffsetRange(0, 9),))]
