"""The channel to the jobs as handlers and sessions use it: it sends request rows and receives response rows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from sharegroup.gateway.job_client.row_appender import JobLoadingError, JobUnavailableError
from sharegroup.protocol.rows.broadcasts import Broadcast
from sharegroup.protocol.rows.lease_requests import RenewLeasesRequest
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest
from sharegroup.types import SharePartitionKey

__all__ = ["JobChannel", "JobLoadingError", "JobUnavailableError", "NotDurableError", "Request"]

Request = ShareGroupRequest | SharePartitionRequest | RenewLeasesRequest


class NotDurableError(JobUnavailableError):
    """The row of a request is not durable yet; `sent` is its future, as `append` returns it."""

    def __init__(self, message: str, sent: asyncio.Future[int]) -> None:
        super().__init__(message)
        self.sent = sent


class JobChannel(Protocol):
    """Appends request rows and delivers each response: `CellChannel`, or `CellChannels` for several cells."""

    reply_to: str

    def start(self) -> None:
        """Connect in the background; requests wait until connected."""

    async def close(self) -> None:
        """Send pending rows, then close the connections."""

    def new_id(self) -> str:
        """Return an id for a request row, unique in this gateway."""

    def cell_of(self, group_id: str) -> str:
        """Return the cell whose job serves a group."""

    def append(self, request: Request) -> asyncio.Future[int]:
        """Append a row, in order with others of its group; done when it is durable or its timeout has expired.

        The result is the time of the append, as in `RowAppender.append`. Raises JobUnavailableError, now or when
        awaited.
        """

    def append_soon(self, request: Request, failed: Callable[[], None] | None = None) -> None:
        """Append a row, in order with others of its group, without waiting for it.

        A failure is logged, and `failed` is called. Records that the row would have returned come back when their locks
        expire.
        """

    def now_ms(self) -> int:
        """Return the brokers' time, in milliseconds since the epoch; acknowledgements are dated by it."""

    def ask(self, request: Request, durable_s: float | None = None) -> Awaitable[Response]:
        """Append a row, immediately if possible, and wait for its response. Raises JobUnavailableError when awaited.

        The error is a JobLoadingError if a job has started and has not yet responded to any request to a group. It is a
        NotDurableError if the row is not durable after `durable_s` seconds. The row may still be appended then.
        """

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        """Call `receive` once with the response to a request, on the event loop."""

    def unsubscribe(self, request_id: str) -> None:
        """Drop the subscription to that response."""

    def on_broadcast(self, callback: Callable[[Broadcast], None]) -> None:
        """Register a callback for broadcast rows, on the event loop, in order with the responses of their job."""

    def on_wanted(self, callback: Callable[[SharePartitionKey], None]) -> None:
        """Register a callback for share-partitions whose records members of other gateways wait for."""
