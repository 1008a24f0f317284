"""A fake `JobChannel` that records the rows, while the test plays the job."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from sharegroup.gateway.job_client.job_channel import JobUnavailableError, NotDurableError
from sharegroup.protocol.rows.broadcasts import Broadcast
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_requests import ACKNOWLEDGE, FETCH, SharePartitionRequest
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse, FetchResponse
from sharegroup.protocol.topic_ids import topic_id_text
from sharegroup.types import AcquiredRange, SharePartitionKey

LOCK_MS = 30_000
TOPIC_ID = UUID(int=1)
KEY = SharePartitionKey("group", "orders", topic_id_text(TOPIC_ID), 0)


class RecordingJob:
    """Records the rows that were sent, and delivers responses to demands."""

    reply_to = "gateway"

    def __init__(self) -> None:
        self.rows: list[SharePartitionRequest] = []
        self.time_ms = 0
        #: The append time of the next row; None: the append fails.
        self.append_ms: int | None = 0
        #: Whether the append of the next row ends with an unknown outcome.
        self.fail_next = False
        #: Whether rows become durable. No broker responds otherwise.
        self.is_durable = True
        #: The row of the last request that failed because it was not durable in time.
        self.not_durable: asyncio.Future[int] | None = None
        self.broadcast: list[Callable[[Broadcast], None]] = []
        self.wanted: list[Callable[[SharePartitionKey], None]] = []
        self._asked: dict[str, asyncio.Future[Response]] = {}
        self._ids = itertools.count()
        self._subscribers: dict[str, Callable[[Response], None]] = {}
        self._failed: Callable[[], None] | None = None
        #: {type of the next row: result of its append}
        self._delayed: dict[type[SharePartitionRequest], asyncio.Future[int]] = {}

    @property
    def subscriptions(self) -> int:
        return len(self._subscribers)

    def delay_next(self, kind: type[SharePartitionRequest]) -> asyncio.Future[int]:
        """Delay the append of the next row of this type until the test sets the result."""
        return self._delayed.setdefault(kind, asyncio.get_running_loop().create_future())

    def new_id(self) -> str:
        return str(next(self._ids))

    def now_ms(self) -> int:
        return self.time_ms

    def on_broadcast(self, callback: Callable[[Broadcast], None]) -> None:
        self.broadcast.append(callback)

    def on_wanted(self, callback: Callable[[SharePartitionKey], None]) -> None:
        self.wanted.append(callback)

    def cell_of(self, group_id: str) -> str:
        return ""

    def append(self, row: SharePartitionRequest) -> asyncio.Future[int]:
        if self.append_ms is None:
            raise JobUnavailableError("away")
        self.rows.append(row)
        if (delayed := self._delayed.pop(type(row), None)) is not None:
            return delayed
        appended = asyncio.get_running_loop().create_future()
        if self.fail_next:
            self.fail_next = False
            appended.set_exception(JobUnavailableError("no answer"))
        elif self.is_durable:
            appended.set_result(self.append_ms)
        return appended

    def ask(self, row: SharePartitionRequest, durable_s: float | None = None) -> Awaitable[Response]:
        self.rows.append(row)
        answered = self._asked.setdefault(row.id, asyncio.get_running_loop().create_future())
        if durable_s is not None and not self.is_durable:
            self.not_durable = asyncio.get_running_loop().create_future()
            self.fail(row, NotDurableError("not durable", self.not_durable))
        return answered

    def append_soon(self, row: SharePartitionRequest, failed: Any = None) -> None:
        self.rows.append(row)
        self._failed = failed

    def fail_last(self) -> None:
        """Report that the last row of `append_soon` could not be appended."""
        assert self._failed is not None
        self._failed()

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        self._subscribers[request_id] = receive

    def unsubscribe(self, request_id: str) -> None:
        self._subscribers.pop(request_id, None)

    def respond(self, response: Response) -> None:
        """Deliver the job's response to whoever waits for it."""
        if response.id in self._asked:
            self._asked.pop(response.id).set_result(response)
        else:
            self._subscribers.pop(response.id)(response)

    def fail(self, row: Any, error: JobUnavailableError) -> None:
        """Let a request fail for which a caller waits."""
        self._asked.pop(row.id).set_exception(error)

    def answer(self, row: Any, **fields: Any) -> None:
        """Respond to a row; without fields, the job accepts the request, and the other values are the defaults."""
        if isinstance(row, HeartbeatRequest):
            response: Any = HeartbeatResponse(
                row.id, row.reply_to, row.group_id, **{"member_id": row.member_id, **fields}
            )
        else:
            key = SharePartitionKey(row.group_id, row.topic, row.topic_id, row.partition)
            kind = {FETCH: FetchResponse, ACKNOWLEDGE: AcknowledgeResponse}[row.type]
            response = kind(row.id, row.reply_to, *key, row.member_id, **fields)
        self.respond(response)

    def tell(self, row: Broadcast) -> None:
        """Deliver a broadcast of the job."""
        for callback in self.broadcast:
            callback(row)

    def acquire(
        self, first: int, last: int, lock_deadline_ms: int = LOCK_MS, count: int = 1, read_committed: bool = False
    ) -> None:
        """Respond to the last demand with this range."""
        demand = next(row for row in reversed(self.rows) if row.type == FETCH and row.max_records)
        acquired = (AcquiredRange(first, last, count),)
        self.answer(demand, acquired=acquired, lock_deadline_ms=lock_deadline_ms, read_committed=read_committed)
