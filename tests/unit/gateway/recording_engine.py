"""In place of `EngineChannel`: the rows that were sent are kept, and a test plays the job."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from sharegroup.gateway.engine_channel import EngineUnavailableError
from sharegroup.protocol.request_rows import FETCH, SharePartitionRequest
from sharegroup.protocol.response_rows import Response, SharePartitionResponse
from sharegroup.types import AcquiredRange, SharePartitionKey

KEY = SharePartitionKey("group", "orders", 0)


class RecordingEngine:
    """The rows that were sent, and the demands to be answered."""

    reply_to = "gateway"

    def __init__(self) -> None:
        self.rows: list[SharePartitionRequest] = []
        self.time_ms = 0
        #: When the next row is appended; None: it cannot be.
        self.append_ms: int | None = 0
        self.new_leader: list[Callable[[], None]] = []
        self.wanted: list[Callable[[SharePartitionKey], None]] = []
        self.answers: dict[str, asyncio.Future[Response]] = {}
        self._ids = itertools.count()
        self._subscribers: dict[str, Callable[[Response], None]] = {}

    def new_id(self) -> str:
        return str(next(self._ids))

    def now_ms(self) -> int:
        return self.time_ms

    def on_new_leader(self, callback: Callable[[], None]) -> None:
        self.new_leader.append(callback)

    def on_wanted(self, callback: Callable[[SharePartitionKey], None]) -> None:
        self.wanted.append(callback)

    def append(self, row: SharePartitionRequest) -> asyncio.Future[int]:
        if self.append_ms is None:
            raise EngineUnavailableError("away")
        self.rows.append(row)
        appended = asyncio.get_running_loop().create_future()
        appended.set_result(self.append_ms)
        return appended

    def ask(self, row: SharePartitionRequest) -> Awaitable[Response]:
        self.rows.append(row)
        return self.answers.setdefault(row.id, asyncio.get_running_loop().create_future())

    def append_soon(self, row: SharePartitionRequest, failed: Any = None) -> None:
        self.rows.append(row)

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        self._subscribers[request_id] = receive

    def acquire(self, first: int, last: int, lock_deadline_ms: int) -> None:
        """The job's answer to the last demand."""
        demand = next(row for row in reversed(self.rows) if row.type == FETCH)
        answer = SharePartitionResponse(
            demand.type, demand.id, demand.reply_to, *KEY, demand.member_id,
            acquired=(AcquiredRange(first, last, 1),), lock_deadline_ms=lock_deadline_ms,
        )  # fmt: skip
        self._subscribers.pop(demand.id)(answer)
