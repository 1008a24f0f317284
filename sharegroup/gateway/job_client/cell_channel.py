"""The gateway's channel to one job: appends request rows and receives the gateway's response rows, on the event loop.

`RowAppender` appends rows on the event loop. `ResponseReader` reads the responses on a thread, and this module passes
them to the event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence

from sharegroup.config import NO_CELL
from sharegroup.gateway.job_client.job_channel import NotDurableError, Request
from sharegroup.gateway.job_client.response_reader import (
    GatewayAnnouncement,
    ResponseReader,
    ResponseRecord,
    Row,
    decoded_rows,
)
from sharegroup.gateway.job_client.row_appender import JobLoadingError, JobUnavailableError, RowAppender
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.outage_log import OutageLog
from sharegroup.kafka_clients.row_topics.row_channel import RowTopics
from sharegroup.protocol.response_records import LIST_SUFFIX
from sharegroup.protocol.rows.broadcasts import Broadcast, NewLeaderBroadcast
from sharegroup.protocol.rows.gateway_rows import GATEWAY_KEY, GatewayRow, encode_gateway
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from sharegroup.protocol.rows.share_group_responses import ShareGroupResponse
from sharegroup.protocol.rows.share_partition_responses import WantedNotice
from sharegroup.types import SharePartitionKey

logger = logging.getLogger(__name__)

#: Pause between checks whether the request topics exist.
TOPICS_PAUSE_S = 0.1
#: If a request times out and no response arrives afterwards, the job counts as unavailable for this long.
UNAVAILABLE_S = 30.0


class CellChannel:
    """A `JobChannel` to one job (cell). `settings` are kafka-python's.

    Channels to several jobs must share one `appender`, because the appender derives the brokers' time from all appends.
    """

    def __init__(
        self,
        settings: ClientSettings,
        topics: RowTopics,
        timeout_s: float,
        cluster: UpstreamCluster,
        appender: RowAppender | None = None,
    ) -> None:
        self._settings, self._topics, self._timeout_s = settings, topics, timeout_s
        self.reply_to = f"gateway-{uuid.uuid4().hex}{LIST_SUFFIX}"
        self._ids = (f"{number:x}" for number in itertools.count(1))
        self._pending: dict[str, asyncio.Future[Response]] = {}
        self._subscribers: dict[str, Callable[[Response], None]] = {}
        self._on_broadcast: list[Callable[[Broadcast], None]] = []
        self._on_wanted: list[Callable[[SharePartitionKey], None]] = []
        self._on_gateway: list[Callable[[GatewayRow, int], None]] = []
        #: Number of requests that timed out, and the time of the last timeout (in seconds of the event loop's clock).
        self.timeouts = 0
        self._timed_out_s = float("-inf")
        #: True from the start of a new job until its first response to a share group request.
        self._is_loading = False
        self._is_closing = False
        self._listening = asyncio.Event()
        self._outage = OutageLog(
            logger, "failed to look up the job's topics", "the job's topics can be looked up again"
        )
        self._ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._appender = appender or RowAppender(cluster, settings, timeout_s)
        self._reader: ResponseReader | None = None
        self._opening: asyncio.Task[None] | None = None

    # -- start and close -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background. Requests wait until the channel is connected."""
        self._reader = ResponseReader(
            self._settings, self._topics.responses, self.reply_to.encode(), self._on_listening, self._receive
        )
        self._reader.start()
        self._opening = asyncio.ensure_future(self._open_requests())

    async def close(self) -> None:
        """Send pending rows, then close the connections."""
        self._is_closing = True
        if self._reader is not None:
            self._reader.stop()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await self._appender.close()
        if self._reader is not None:
            await self._loop.run_in_executor(None, self._reader.join, 5)

    async def _open_requests(self) -> None:
        """Wait until the reader is ready for responses and the request topics exist. Then allow requests."""
        await self._listening.wait()
        while not await self._has_request_topics():
            if self._is_closing:  # before Python 3.12, wait_for may swallow the cancellation
                return
            await asyncio.sleep(TOPICS_PAUSE_S)
        self._ready.set()

    async def _has_request_topics(self) -> bool:
        wanted = self._topics.share_group_requests, self._topics.share_partition_requests
        try:
            knows = await self._appender.has_topics(wanted)
        except Exception as error:  # noqa: BLE001 - the channel needs the topics, so it retries after any error
            self._outage.report_failure(error)
            return False
        self._outage.report_success()
        return knows

    @property
    def cells(self) -> dict[str, CellChannel]:
        """{name of a cell: its channel}, as in `CellChannels`. The only entry is this channel, under `NO_CELL`."""
        return {NO_CELL: self}

    # -- requests --------------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """Return an id for a request row that is unique in this gateway."""
        return next(self._ids)

    def cell_of(self, group_id: str) -> str:
        return NO_CELL

    def append(self, request: Request) -> asyncio.Future[int]:
        if not self._ready.is_set():
            raise JobUnavailableError("the job's topics do not exist: is the job running?")
        is_group = isinstance(request, ShareGroupRequest)
        topic = self._topics.share_group_requests if is_group else self._topics.share_partition_requests
        return self._appender.append(topic, request.kafka_key, request.encode())

    def append_soon(self, request: Request, failed: Callable[[], None] | None = None) -> None:
        def done(sent: asyncio.Future[int]) -> None:
            problem = sent.exception() if not sent.cancelled() else None
            if problem is not None and failed is not None:
                failed()

        try:
            self.append(request).add_done_callback(done)
        except JobUnavailableError:
            if failed is not None:
                failed()

    def now_ms(self) -> int:
        return self._appender.now_ms()

    def ask(self, request: Request, durable_s: float | None = None) -> Awaitable[Response]:
        sent: asyncio.Future[int] | None = None
        if self._ready.is_set():
            try:
                sent = self.append(request)
            except JobUnavailableError as error:
                sent = self._loop.create_future()
                sent.set_exception(error)
                sent.exception()  # marks it as retrieved; the caller may be gone
        future: asyncio.Future[Response] = self._loop.create_future()
        self._pending[request.id] = future
        return self._response(request, future, sent, durable_s)

    async def _response(
        self,
        request: Request,
        future: asyncio.Future[Response],
        sent: asyncio.Future[int] | None,
        durable_s: float | None = None,
    ) -> Response:
        try:
            if sent is None:
                await self._wait_ready()
                sent = self.append(request)
            await asyncio.wait({sent}, timeout=durable_s)
            if not sent.done():
                raise NotDurableError(f"the request was not durable within {durable_s:g} s", sent)
            sent.result()
            return await asyncio.wait_for(future, self._timeout_s)
        except TimeoutError:
            self.timeouts += 1
            self._timed_out_s = self._loop.time()
            if self._is_loading:
                raise JobLoadingError(f"the job is still loading after {self._timeout_s:g} s") from None
            raise JobUnavailableError(f"the job did not respond within {self._timeout_s:g} s") from None
        finally:
            self._pending.pop(request.id, None)

    @property
    def pending_count(self) -> int:
        """The number of requests that wait for their response."""
        return len(self._pending)

    def unavailable_reason(self) -> str:
        """Return the reason why the job cannot serve requests now; empty if it can.

        After a timeout, the job counts as unavailable until the next response, but for at most `UNAVAILABLE_S`. Without
        this limit, the job would count as unavailable forever if no further request is sent.
        """
        if not self._ready.is_set():
            return "the job's topics do not exist"
        if self._loop.time() - self._timed_out_s < UNAVAILABLE_S:
            return "the job does not respond"
        return ""

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        self._subscribers[request_id] = receive

    def unsubscribe(self, request_id: str) -> None:
        self._subscribers.pop(request_id, None)

    def on_broadcast(self, callback: Callable[[Broadcast], None]) -> None:
        self._on_broadcast.append(callback)

    def on_wanted(self, callback: Callable[[SharePartitionKey], None]) -> None:
        self._on_wanted.append(callback)

    def announce(self, row: GatewayRow) -> Sequence[asyncio.Future[int]]:
        """Announce this gateway to all gateways. Returns one future per partition; see `RowAppender.append_everywhere`.

        Raises JobUnavailableError if the job's topics do not exist or too many bytes are pending.
        """
        if not self._ready.is_set():
            raise JobUnavailableError("the job's topics do not exist: is the job running?")
        return self._appender.append_everywhere(self._topics.responses, GATEWAY_KEY.encode(), encode_gateway(row))

    def on_gateway(self, callback: Callable[[GatewayRow, int], None]) -> None:
        """Register a callback for the announcements of all gateways. Its arguments are (row, append time in ms)."""
        self._on_gateway.append(callback)

    async def _wait_ready(self) -> None:
        if self._ready.is_set():
            return
        try:
            await asyncio.wait_for(self._ready.wait(), self._timeout_s)
        except TimeoutError:
            raise JobUnavailableError("the job's topics do not exist: is the job running?") from None

    # -- responses: in the reader's thread -----------------------------------------------------------------------

    def _on_listening(self) -> None:
        self._loop.call_soon_threadsafe(self._listening.set)

    def _receive(self, records: Iterable[ResponseRecord]) -> None:
        """Decode rows, and pass them to the event loop in log order."""
        rows = decoded_rows(records, self.reply_to.encode())
        if rows and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, rows)

    # -- responses: on the event loop ----------------------------------------------------------------------------

    def _deliver(self, rows: list[Row]) -> None:
        for response in rows:
            if isinstance(response, GatewayAnnouncement):
                for on_gateway in self._on_gateway:
                    on_gateway(*response)
                continue
            self._timed_out_s = float("-inf")
            self._is_loading = isinstance(response, NewLeaderBroadcast) or (
                self._is_loading and not isinstance(response, ShareGroupResponse)
            )
            if isinstance(response, Broadcast):
                for on_broadcast in self._on_broadcast:
                    on_broadcast(response)
                continue
            if isinstance(response, WantedNotice):
                key = SharePartitionKey(response.group_id, response.topic, response.topic_id, response.partition)
                for callback in self._on_wanted:
                    callback(key)
                continue
            future = self._pending.pop(response.id, None)
            if future is not None and not future.done():
                future.set_result(response)
            receive = self._subscribers.pop(response.id, None)
            if receive is not None:
                receive(response)
