"""The gateway's line to the jobs, as handlers and sessions use it: request rows out, its own response rows in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from sharegroup.gateway.job_client.row_appender import JobLoadingError, JobUnavailableError
from sharegroup.protocol.rows.broadcasts import Broadcast
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest
from sharegroup.types import SharePartitionKey

__all__ = ["JobChannel", "JobLoadingError", "JobUnavailableError", "Request"]

Request = ShareGroupRequest | SharePartitionRequest


class JobChannel(Protocol):
    """Appends request rows and hands each response to who waits for it: `CellChannel`, or `CellChannels` of several."""

    reply_to: str

    def start(self) -> None:
        """Connect in the background; requests wait for it."""

    async def close(self) -> None:
        """Send what is on its way, then close the connections."""

    def new_id(self) -> str:
        """An id for a request row, unique in this gateway."""

    def append(self, request: Request) -> asyncio.Future[int]:
        """Produce a row, in order with others of its group; done when it is durable, or its time is over.

        The result is when it was appended, as in `RowAppender.append`. Raises JobUnavailableError, then or now.
        """

    def append_soon(self, request: Request, failed: Callable[[], None] | None = None) -> None:
        """Produce a row, in order with others of its group, without waiting for it.

        A row that cannot be produced is logged: what it would have given back comes back when its locks run out.
        """

    def now_ms(self) -> int:
        """The brokers' time, in milliseconds since the epoch: acknowledgements are judged by it."""

    def ask(self, request: Request) -> Awaitable[Response]:
        """Produce a row, now if that can be, and wait for its response. Raises JobUnavailableError, when awaited.

        It is a JobLoadingError if a job has started meanwhile and has not answered any request to a group yet.
        """

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        """Have the response to a request given to `receive`, on the event loop; once."""

    def unsubscribe(self, request_id: str) -> None:
        """Nobody waits for that response any more."""

    def on_broadcast(self, callback: Callable[[Broadcast], None]) -> None:
        """Have `callback` given the rows for everybody, on the event loop, in order with the responses of their job."""

    def on_wanted(self, callback: Callable[[SharePartitionKey], None]) -> None:
        """Have `callback` called, on the event loop, when members of others wait for records of a share-partition."""
