"""One client's connection: requests in, responses out in the same order.

As in Kafka, a connection has one request of the gateway's own at work at a time; those that pass through to the
upstream broker may follow each other before their answers are there. A client that sends faster than it is answered,
or does not read its answers, is not read from: what it can make the gateway hold is bounded. What is no request, or one
that the client may not send, closes the connection, since Kafka has no answer for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TypeVar, cast

from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import RequestError
from sharegroup.gateway.clients.connection_host import ConnectionHost
from sharegroup.gateway.clients.keepalive import end_when_vanished
from sharegroup.gateway.handlers.api_versions import API_VERSIONS, unsupported_version
from sharegroup.gateway.security.sasl_server import SaslServer
from sharegroup.gateway.security.tls import certificate_principal
from sharegroup.gateway.upstream.connection import UpstreamUnavailableError
from sharegroup.gateway.upstream.passthrough import Passthrough
from sharegroup.gateway.wire import headers as wire
from sharegroup.gateway.wire.framing import FrameProtocol, framed
from sharegroup.gateway.wire.headers import MalformedRequestError, RequestHeader, UnknownVersionError
from sharegroup.gateway.wire.request import Caller, Request
from sharegroup.gateway.wire.request_decoding import decode_request

logger = logging.getLogger(__name__)

T = TypeVar("T")
U = TypeVar("U")

#: What is sent: encoded already, or a frame that is to come from upstream.
_Answer = bytes | bytearray | asyncio.Future[memoryview]
#: Requests that wait to be handled before the client is not read from any more, their bytes, and answers that may be
#: on their way.
MAX_WAITING_FRAMES, MAX_WAITING_BYTES, MAX_WAITING_ANSWERS = 16, 1_048_576, 16
#: Largest request that the gateway decodes itself: 10,000 acknowledgement batches are 190 KB, the acknowledgements of
#: a million records one by one or a subscription to 4,000 topics with the longest names 1 MB. Decoding takes
#: 0.1 s at the worst.
MAX_OWN_REQUEST_BYTES = 1_048_576
#: Largest request of a client that has not logged in. SASL messages are limited to 4 KiB.
MAX_LOGIN_REQUEST_BYTES = 8_192
#: A client that has not read any of its answers for so long is gone.
UNREAD_TIMEOUT_S = 60.0
WRITE_BUFFER_BYTES = 1_048_576
#: Kafka's `connection.failed.authentication.delay.ms`: who guesses passwords is to take his time.
FAILED_LOGIN_DELAY_S = 0.1


class ClientConnection(FrameProtocol):
    """See the module; `node_id` is the upstream broker whose port the client came to."""

    def __init__(self, gateway: ConnectionHost, node_id: int, connection_id: int) -> None:
        self._gateway = gateway
        self._sasl = gateway.security.authenticator()
        super().__init__(self._max_request_bytes())
        self._node_id, self._connection_id = node_id, connection_id
        self._frames: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._arrived = asyncio.Event()
        self._answers: asyncio.Queue[_Answer] = asyncio.Queue(MAX_WAITING_ANSWERS)
        self._passthrough: Passthrough | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._caller = Caller(connection_id, node_id, "")
        self._connected_at = self._last_request = gateway.now()
        self._had_request = self._is_closing = False
        self._unread_timer: asyncio.TimerHandle | None = None

    # -- asyncio -----------------------------------------------------------------------------------------------------

    def accepted(self, transport: asyncio.Transport) -> bool:
        """The client has a place from now on, before any TLS handshake; False when there is none, and it is closed."""
        self.transport = transport
        if self._gateway.connected(self):
            end_when_vanished(transport.get_extra_info("socket"), self._gateway.config.tcp_keepalive_ms)
            return True
        self.close()
        return False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's, after any TLS handshake."""
        transport = cast(asyncio.Transport, transport)
        if self.transport is None and not self.accepted(transport):
            return
        super().connection_made(transport)
        try:
            self._serve(transport)
        except Exception as error:  # noqa: BLE001 - asyncio would keep the connection, with nobody to serve it
            self._give_up(error)

    def _serve(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        peer = transport.get_extra_info("peername")
        self._caller = Caller(self._connection_id, self._node_id, str(peer[0]) if peer else "")
        principal = certificate_principal(transport.get_extra_info("ssl_object"))
        if principal is not None and self._sasl is None:
            self._log_in(principal)
        self._tasks = [asyncio.ensure_future(self._until_closed(work)) for work in (self._work(), self._write())]

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's: the client is gone, and with it its share sessions."""
        super().connection_lost(exc)
        self._is_closing = True
        self._frames.clear()
        self._stop_unread_timer()
        for task in self._tasks:
            task.cancel()
        if self._passthrough is not None:
            self._passthrough.close()
        self._gateway.disconnected(self, self._connection_id)

    def frame_received(self, frame: memoryview) -> None:
        """A request."""
        self._frames.append(frame)
        self._waiting_bytes += len(frame)
        self._last_request = self._gateway.now()
        self._arrived.set()
        if len(self._frames) >= MAX_WAITING_FRAMES or self._waiting_bytes >= MAX_WAITING_BYTES:
            self.hold_frames()

    def frame_error(self, problem: str) -> None:
        """What came is no Kafka request."""
        self._give_up(MalformedRequestError(problem))

    def pause_writing(self) -> None:
        """asyncio's: the client is slow to read."""
        super().pause_writing()
        assert self.transport is not None
        self._expect_reading(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """asyncio's."""
        super().resume_writing()
        self._stop_unread_timer()

    # -- its end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection now."""
        self._is_closing = True
        self.abort()

    def is_idle(self, now: float) -> bool:
        """Whether the client has been silent, or without a login, for too long (seconds of the loop's clock)."""
        config = self._gateway.config
        if not self._had_request or not self._is_authenticated:
            return now - self._connected_at > config.first_request_timeout_ms / 1000
        return now - self._last_request > config.connections_max_idle_ms / 1000

    def _give_up(self, problem: Exception) -> None:
        """Close the connection and say why; the line is at the level of whose fault it is."""
        self.close()
        client = self._caller.host
        if isinstance(problem, (MalformedRequestError, UnknownVersionError, RequestError)):
            logger.info("client %s is disconnected: %s", client, problem)
        elif isinstance(problem, UpstreamUnavailableError):
            logger.warning("client %s is disconnected: %s", client, problem)
        else:
            logger.error("client %s is disconnected: its request failed", client, exc_info=problem)

    def _expect_reading(self, unread_bytes: int) -> None:
        loop = asyncio.get_running_loop()
        self._unread_timer = loop.call_later(UNREAD_TIMEOUT_S, self._check_reading, unread_bytes)

    def _check_reading(self, unread_bytes: int) -> None:
        if self.transport is None:
            return
        if self.transport.get_write_buffer_size() < unread_bytes:
            self._expect_reading(self.transport.get_write_buffer_size())
            return
        logger.info("client %s is disconnected: it does not read its responses", self._caller.host)
        self.close()

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    # -- requests ----------------------------------------------------------------------------------------------------

    @property
    def _is_authenticated(self) -> bool:
        return self._sasl is None or self._sasl.is_authenticated

    def _max_request_bytes(self) -> int:
        most = self._gateway.config.request_max_bytes
        return most if self._is_authenticated else min(most, MAX_LOGIN_REQUEST_BYTES)

    async def _until_closed(self, work: Coroutine[None, None, None]) -> None:
        """Run one of the two tasks; what goes wrong in it ends the connection."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - each has its line in the log, and no other connection suffers
            if not self._is_closing:
                self._give_up(error)

    async def _work(self) -> None:
        """Handle the frames in order.

        It ends by being cancelled, or by itself: before Python 3.12 `wait_for` may swallow a cancellation.
        """
        while not self._is_closing:
            await self._handle(await self._next_frame())

    async def _next_frame(self) -> memoryview:
        while not self._frames:
            self._arrived.clear()
            await self._arrived.wait()
        frame = self._frames.popleft()
        self._waiting_bytes -= len(frame)
        if self.is_held and len(self._frames) < MAX_WAITING_FRAMES // 2 and self._waiting_bytes < MAX_WAITING_BYTES:
            self.release_frames()
        return frame

    async def _handle(self, frame: memoryview) -> None:
        self._had_request = True
        if self._sasl is not None and self._sasl.takes_bare_messages:
            await self._bare_login(self._sasl, frame)
            return
        header = wire.read_header(frame)
        if self._sasl is not None and not self._sasl.allows(header.api_key):
            raise MalformedRequestError(f"request {header.api_key} before authentication")
        message = self._gateway.messages.get(header.api_key)
        if message is None:
            await self._pass_through(header, frame)
            return
        if len(frame) > MAX_OWN_REQUEST_BYTES:
            raise MalformedRequestError(f"{message.name} of {len(frame)} bytes; allowed: up to {MAX_OWN_REQUEST_BYTES}")
        await self._answers.join()  # one of our own at a time, and in order with what passes through
        await self._answers.put(await self._own(message, header, frame))
        if self._sasl is not None and self._sasl.has_failed:
            await self._close_when_answered()

    async def _pass_through(self, header: RequestHeader, frame: memoryview) -> None:
        self._gateway.security.pass_through(self._caller)
        await self._gateway.check_offered(self._node_id, header)
        if self._passthrough is None:
            self._passthrough = self._gateway.passthrough(self._node_id)
        answer = await self._passthrough.forward(header, frame)
        if answer is not None:
            await self._answers.put(answer)

    async def _own(self, message: type[ApiMessage], header: RequestHeader, frame: memoryview) -> bytearray:
        low, high = message.valid_versions
        if header.api_key == API_VERSIONS and not low <= header.api_version <= high:
            return wire.encode_response(unsupported_version(), 0, header.correlation_id)
        request = Request(header, decode_request(message, header, frame), self._caller)
        if self._sasl is not None and self._sasl.is_sasl(header.api_key):
            response = await self._login_step(self._sasl, self._sasl.handle, request)
        else:
            response = await self._gateway.handle(request)
        return wire.encode_response(response, header.api_version, header.correlation_id)

    async def _bare_login(self, sasl: SaslServer, message: memoryview) -> None:
        """A step of the login without a request around it."""
        await self._answers.join()
        answer = await self._login_step(sasl, sasl.bare_message, bytes(message))
        if sasl.has_failed:
            await self._close_when_answered()
        else:
            await self._answers.put(framed(answer))

    async def _login_step(self, sasl: SaslServer, step: Callable[[T], U], said: T) -> U:
        """What `step` of `sasl` answers, off the event loop: to check a password takes milliseconds."""
        answer = await self._gateway.run_login(step, said)
        if sasl.has_failed:
            await asyncio.sleep(FAILED_LOGIN_DELAY_S)
        elif sasl.principal is not None:
            self._log_in(sasl.principal)
        return answer

    def _log_in(self, principal: str) -> None:
        self._caller = Caller(self._connection_id, self._node_id, self._caller.host, principal)
        self.max_frame_bytes = self._max_request_bytes()

    async def _close_when_answered(self) -> None:
        await self._answers.join()
        self._is_closing = True
        if self.transport is not None:
            self.transport.close()

    # -- responses ---------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Send the answers in order, as fast as the client reads them."""
        while True:
            answer = await self._answers.get()
            try:
                await self._send(answer)
            finally:
                self._answers.task_done()

    async def _send(self, answer: _Answer) -> None:
        if isinstance(answer, asyncio.Future):
            frame: memoryview = await answer
            self.write_frame(frame)
            await self.drained()
            if self._passthrough is not None:
                self._passthrough.taken(len(frame))
        elif self.transport is not None:
            self.transport.write(answer)
            await self.drained()
