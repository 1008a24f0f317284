"""The gateway's line to one job: request rows out, its own response rows in, on the event loop.

Rows are appended on the loop (`RowAppender`). Responses are read by a thread (`ResponseReader`); this is where it meets
the loop.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence

from sharegroup.config import NO_CELL
from sharegroup.gateway.job_client.job_channel import Request
from sharegroup.gateway.job_client.response_reader import (
    HeardGateway,
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
from sharegroup.protocol.response_records import LISTS
from sharegroup.protocol.rows.broadcasts import Broadcast, NewLeaderBroadcast
from sharegroup.protocol.rows.gateway_rows import GATEWAYS, GatewayRow, encode_gateway
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from sharegroup.protocol.rows.share_group_responses import ShareGroupResponse
from sharegroup.protocol.rows.share_partition_responses import WantedNotice
from sharegroup.types import SharePartitionKey

logger = logging.getLogger(__name__)

#: Between two looks for the request topics.
TOPICS_PAUSE_S = 0.1
#: So long a job counts as away that has left a request without a response.
SILENCE_S = 30.0


class CellChannel:
    """A `JobChannel`. `settings` are kafka-python's.

    Channels to several jobs share an `appender`: one knows the brokers' time by all appends.
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
        self.reply_to = f"gateway-{uuid.uuid4().hex}{LISTS}"
        self._ids = (f"{number:x}" for number in itertools.count(1))
        self._waiting: dict[str, asyncio.Future[Response]] = {}
        self._subscribers: dict[str, Callable[[Response], None]] = {}
        self._on_broadcast: list[Callable[[Broadcast], None]] = []
        self._on_wanted: list[Callable[[SharePartitionKey], None]] = []
        self._on_gateway: list[Callable[[GatewayRow, int], None]] = []
        #: Requests that had no response in time, so far, and when the last of them had none (seconds of the loop).
        self.timeouts = 0
        self._silent_s = float("-inf")
        #: Whether a job has started that has not answered any request to a group yet.
        self._is_loading = False
        self._is_closing = False
        self._listening = asyncio.Event()
        self._outage = OutageLog(logger, "the job's topics cannot be looked up", "the job's topics are looked up again")
        self._ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._appender = appender or RowAppender(cluster, settings, timeout_s)
        self._reader: ResponseReader | None = None
        self._opening: asyncio.Task[None] | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background; requests wait for it."""
        self._reader = ResponseReader(
            self._settings, self._topics.responses, self.reply_to.encode(), self._listens, self._receive
        )
        self._reader.start()
        self._opening = asyncio.ensure_future(self._open_requests())

    async def close(self) -> None:
        """Send what is on its way, then close the connections."""
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
        """Wait for all that requests need: first that their responses are read."""
        await self._listening.wait()
        while not await self._knows_request_topics():
            if self._is_closing:  # before Python 3.12, wait_for may swallow that we were cancelled
                return
            await asyncio.sleep(TOPICS_PAUSE_S)
        self._ready.set()

    async def _knows_request_topics(self) -> bool:
        wanted = self._topics.share_group_requests, self._topics.share_partition_requests
        try:
            knows = await self._appender.knows(wanted)
        except Exception as error:  # noqa: BLE001 - whatever it is, without the topics we are of no use
            self._outage.began(error)
            return False
        self._outage.ended()
        return knows

    @property
    def cells(self) -> dict[str, CellChannel]:
        """The channel of the one job there is."""
        return {NO_CELL: self}

    # -- requests --------------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """An id for a request row, unique in this gateway."""
        return next(self._ids)

    def append(self, request: Request) -> asyncio.Future[int]:
        """Produce a row, in order with others; done when it is durable, or its time is over.

        The result is when it was appended, as in `RowAppender.append`. Raises JobUnavailableError, then or now.
        """
        if not self._ready.is_set():
            raise JobUnavailableError("the job's topics are not there: is the job running?")
        is_group = isinstance(request, ShareGroupRequest)
        topic = self._topics.share_group_requests if is_group else self._topics.share_partition_requests
        return self._appender.append(topic, request.kafka_key, request.encode())

    def append_soon(self, request: Request, failed: Callable[[], None] | None = None) -> None:
        """Produce a row, in order with others, without waiting for it.

        A row that cannot be produced is logged: what it would have given back comes back when its locks run out.
        """

        def done(sent: asyncio.Future[int]) -> None:
            problem = sent.exception() if not sent.cancelled() else None
            if problem is not None:
                logger.warning("a request row was not sent: %s", problem)
                if failed is not None:
                    failed()

        try:
            self.append(request).add_done_callback(done)
        except JobUnavailableError as error:
            logger.warning("a request row was not sent: %s", error)
            if failed is not None:
                failed()

    def now_ms(self) -> int:
        """The brokers' time, in milliseconds since the epoch: acknowledgements are judged by it."""
        return self._appender.now_ms()

    def ask(self, request: Request) -> Awaitable[Response]:
        """As `JobChannel.ask`."""
        sent: asyncio.Future[int] | None = None
        if self._ready.is_set():
            try:
                sent = self.append(request)
            except JobUnavailableError as error:
                sent = self._loop.create_future()
                sent.set_exception(error)
                sent.exception()  # whoever would have waited may be gone
        future: asyncio.Future[Response] = self._loop.create_future()
        self._waiting[request.id] = future
        return self._response(request, future, sent)

    async def _response(
        self, request: Request, future: asyncio.Future[Response], sent: asyncio.Future[int] | None
    ) -> Response:
        try:
            if sent is None:
                await self._wait_ready()
                sent = self.append(request)
            await sent
            return await asyncio.wait_for(future, self._timeout_s)
        except TimeoutError:
            self.timeouts += 1
            self._silent_s = self._loop.time()
            if self._is_loading:
                raise JobLoadingError(f"the job is still loading after {self._timeout_s:g} s") from None
            raise JobUnavailableError(f"the job did not answer within {self._timeout_s:g} s") from None
        finally:
            self._waiting.pop(request.id, None)

    @property
    def waiting(self) -> int:
        """Requests that wait for their response."""
        return len(self._waiting)

    def problem(self) -> str:
        """Why requests are of no use now, "" if they are.

        That the job has left one without a response is forgotten when it answers, or after `SILENCE_S`: with nobody
        who asks, nothing would show that it is back.
        """
        if not self._ready.is_set():
            return "the job's topics are not there"
        if self._loop.time() - self._silent_s < SILENCE_S:
            return "the job does not answer"
        return ""

    def subscribe(self, request_id: str, receive: Callable[[Response], None]) -> None:
        """Have the response to a request given to `receive`, on the event loop; once."""
        self._subscribers[request_id] = receive

    def unsubscribe(self, request_id: str) -> None:
        """Nobody waits for that response any more."""
        self._subscribers.pop(request_id, None)

    def on_broadcast(self, callback: Callable[[Broadcast], None]) -> None:
        """Have `callback` given the rows for everybody, on the event loop, in order with the responses."""
        self._on_broadcast.append(callback)

    def on_wanted(self, callback: Callable[[SharePartitionKey], None]) -> None:
        """Have `callback` called, on the event loop, when members of others wait for records of a share-partition."""
        self._on_wanted.append(callback)

    def announce(self, row: GatewayRow) -> Sequence[asyncio.Future[int]]:
        """Tell the other gateways of ours; the futures are as of `append`. Raises JobUnavailableError."""
        if not self._ready.is_set():
            raise JobUnavailableError("the job's topics are not there: is the job running?")
        return self._appender.append_everywhere(self._topics.responses, GATEWAYS.encode(), encode_gateway(row))

    def on_gateway(self, callback: Callable[[GatewayRow, int], None]) -> None:
        """Have `callback` given what gateways announce, ours too, on the event loop, and when it was appended (ms)."""
        self._on_gateway.append(callback)

    async def _wait_ready(self) -> None:
        if self._ready.is_set():
            return
        try:
            await asyncio.wait_for(self._ready.wait(), self._timeout_s)
        except TimeoutError:
            raise JobUnavailableError("the job's topics are not there: is the job running?") from None

    # -- responses: in the reader's thread -----------------------------------------------------------------------

    def _listens(self) -> None:
        self._loop.call_soon_threadsafe(self._listening.set)

    def _receive(self, records: Iterable[ResponseRecord]) -> None:
        """Rows in the order of the log; what one says of a member or a topic counts for those behind it."""
        rows = decoded_rows(records, self.reply_to.encode())
        if rows and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, rows)

    # -- responses: on the event loop ----------------------------------------------------------------------------

    def _deliver(self, rows: list[Row]) -> None:
        for response in rows:
            if isinstance(response, HeardGateway):
                for hear in self._on_gateway:
                    hear(*response)
                continue
            self._silent_s = float("-inf")
            self._is_loading = isinstance(response, NewLeaderBroadcast) or (
                self._is_loading and not isinstance(response, ShareGroupResponse)
            )
            if isinstance(response, Broadcast):
                for tell in self._on_broadcast:
                    tell(response)
                continue
            if isinstance(response, WantedNotice):
                key = SharePartitionKey(response.group_id, response.topic, response.topic_id, response.partition)
                for callback in self._on_wanted:
                    callback(key)
                continue
            future = self._waiting.pop(response.id, None)
            if future is not None and not future.done():
                future.set_result(response)
            receive = self._subscribers.pop(response.id, None)
            if receive is not None:
                receive(response)
