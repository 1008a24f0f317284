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
    """The row of a request is not durable yet. `sent` is the future that `append` has returned for the row."""

    def __init__(self, message: str, sent: asyncio.Future[int]) -> None:
        super().__init__(message)
        self.sent = sent


class JobChannel(Protocol):
    """Appends request rows and delivers responses. `CellChannel` does so for one job, `CellChannels` for several."""

    reply_to: str

    def start(self) -> None:
        """Connect in the background. Requests wait until the channel is connected."""

    async def close(self) -> None:
        """Send pending rows, then close the connections."""

    def new_id(self) -> str:
        """Return an id for a request row that is unique in this gateway."""

    def cell_of(self, group_id: str) -> str:
        """Return the cell that serves a group. A cell is one of several jobs that run side by side."""

    def append(self, request: Request) -> asyncio.Future[int]:
        """Append a row after earlier rows with the same key. The future completes when the row is durable.

        The result of the future is the append time, as in `RowAppender.append`. If the row cannot be appended in time,
        either this call or awaiting the future raises JobUnavailableError.
        """

    def append_soon(self, request: Request, failed: Callable[[], None] | None = None) -> None:
        """Append a row after earlier rows with the same key, without waiting for the result.

        If the row cannot be appended, no error is raised, but `failed` is called. Records that the row was meant to
        release stay locked until their locks expire.
        """

    def now_ms(self) -> int:
        """Return the current time of the brokers' clocks in ms since the epoch."""

    def ask(self, request: Request, durable_s: float | None = None) -> Awaitable[Response]:
        """Append a row, and return an awaitable for the job's response.

        The row is sent by this call if the channel is connected. Otherwise it is sent after the channel has connected,
        and only if the result is awaited. Awaiting raises
        - JobLoadingError if the job does not respond in time because it is still loading
        - JobUnavailableError if the row is not appended, or if the job does not respond in time for another reason
        - NotDurableError if the row is not durable after `durable_s` seconds. The row may still be appended later.
        """

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        """Register a callback for the response to a request. The callback is called at most once, on the event loop."""

    def unsubscribe(self, request_id: str) -> None:
        """Remove the callback for the response to a request."""

    def on_broadcast(self, callback: Callable[[Broadcast], None]) -> None:
        """Register a callback for broadcast rows.

        The callback is called on the event loop. Broadcasts and responses of the same job arrive in log order.
        """

    def on_wanted(self, callback: Callable[[SharePartitionKey], None]) -> None:
        """Register a callback for `wanted` rows.

        Such a row reports that members of other gateways wait for records of a share-partition.
        """
