"""The interface through which handlers and sessions send request rows to the jobs and receive response rows."""

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
    """The row of a request is not durable yet. `sent` is the future that `append` returned for it."""

    def __init__(self, message: str, sent: asyncio.Future[int]) -> None:
        super().__init__(message)
        self.sent = sent


class JobChannel(Protocol):
    """Appends request rows and delivers responses: `CellChannel` for one job, `CellChannels` for several cells."""

    reply_to: str

    def start(self) -> None:
        """Connect in the background. Requests wait until the channel is connected."""

    async def close(self) -> None:
        """Send pending rows, then close the connections."""

    def new_id(self) -> str:
        """Return an id for a request row that is unique in this gateway."""

    def cell_of(self, group_id: str) -> str:
        """Return the cell whose job serves a group."""

    def append(self, request: Request) -> asyncio.Future[int]:
        """Append a row after earlier rows of the same group. The future completes when the row is durable.

        Its result is the time of the append, as in `RowAppender.append`. Raises JobUnavailableError if the row cannot
        be appended in time, either immediately or when the future is awaited.
        """

    def append_soon(self, request: Request, failed: Callable[[], None] | None = None) -> None:
        """Append a row after earlier rows of the same group, without waiting for the result.

        If that fails, the failure is logged and `failed` is called. If the row was to return records to the job, these
        become available when their locks expire.
        """

    def now_ms(self) -> int:
        """Return the brokers' time in ms since the epoch. It is the time of acknowledgements in request rows."""

    def ask(self, request: Request, durable_s: float | None = None) -> Awaitable[Response]:
        """Append a row, immediately if possible. Awaiting the result returns the job's response.

        Awaiting raises JobUnavailableError if the job does not respond in time, JobLoadingError if it has started and
        has not yet responded to any request of a group, and NotDurableError if the row is not durable after `durable_s`
        seconds. In the last case the row may still be appended.
        """

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        """Register a callback that is called once, on the event loop, with the response to a request."""

    def unsubscribe(self, request_id: str) -> None:
        """Remove the callback for the response to a request."""

    def on_broadcast(self, callback: Callable[[Broadcast], None]) -> None:
        """Register a callback for broadcast rows.

        It runs on the event loop, in order with the responses of the same job.
        """

    def on_wanted(self, callback: Callable[[SharePartitionKey], None]) -> None:
        """Register a callback for share-partitions for which members of other gateways wait (row `wanted`)."""
