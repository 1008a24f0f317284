"""One client's connection: requests in, responses out in the same order.

As in Kafka, a connection has one request of the gateway's own at work at a time; those that pass through to the
upstream broker may follow each other before their answers are there. A client that sends faster than it is answered,
or does not read its answers, is not read from: what it can make the gateway hold is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import deque
from typing import TYPE_CHECKING, Any

from sharegroup.gateway import wire
from sharegroup.gateway.framing import FrameProtocol
from sharegroup.gateway.handlers.api_versions import API_VERSIONS, unsupported_version
from sharegroup.gateway.passthrough import Passthrough
from sharegroup.gateway.request import Caller, Request
from sharegroup.gateway.upstream_connection import UpstreamUnavailableError
from sharegroup.gateway.wire import MalformedRequestError, RequestHeader, UnknownVersionError

if TYPE_CHECKING:
    from sharegroup.gateway.server import Gateway

logger = logging.getLogger(__name__)

#: Frames that wait to be handled before the client is not read from any more, and answers that may be on their way.
MAX_WAITING_FRAMES, MAX_WAITING_ANSWERS = 16, 16
#: A client that has not read its answers for so long is gone.
UNREAD_TIMEOUT_S = 60.0
WRITE_BUFFER_BYTES = 1_048_576


class ClientConnection(FrameProtocol):
    """See the module; `node_id` is the upstream broker whose port the client came to."""

    def __init__(self, gateway: Gateway, node_id: int, connection_id: int) -> None:
        super().__init__(gateway.config.request_max_bytes)
        self._gateway = gateway
        self._node_id, self._connection_id = node_id, connection_id
        self._frames: deque[memoryview] = deque()
        self._arrived = asyncio.Event()
        self._is_reading = True
        self._answers: asyncio.Queue[Any] = asyncio.Queue(MAX_WAITING_ANSWERS)
        self._passthrough: Passthrough | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._caller = Caller(connection_id, node_id, "")
        self._sasl = gateway.security.authenticator()
        self._last_request = gateway.now()
        self._had_request = False

    # -- asyncio -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's."""
        super().connection_made(transport)
        assert self.transport is not None
        peer = self.transport.get_extra_info("peername")
        self._caller = Caller(self._connection_id, self._node_id, str(peer[0]) if peer else "")
        if not self._gateway.connected(self):
            self.transport.abort()
            return
        self.transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self._tasks = [asyncio.ensure_future(self._work()), asyncio.ensure_future(self._write())]

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's: the client is gone, and with it its share sessions."""
        super().connection_lost(exc)
        for task in self._tasks:
            task.cancel()
        if self._passthrough is not None:
            self._passthrough.close()
        self._gateway.disconnected(self, self._connection_id)

    def frame_received(self, frame: memoryview) -> None:
        """A request."""
        self._frames.append(frame)
        self._last_request = self._gateway.now()
        self._arrived.set()
        if len(self._frames) >= MAX_WAITING_FRAMES and self._is_reading and self.transport is not None:
            self._is_reading = False
            self.transport.pause_reading()

    def frame_error(self, problem: str) -> None:
        """What came is no Kafka request."""
        logger.info("client %s: %s; connection closed", self._caller.host, problem)
        self.close()

    def close(self) -> None:
        """Close the connection now."""
        if self.transport is not None:
            self.transport.abort()

    def is_idle(self, now: float) -> bool:
        """Whether the client has been silent for too long (seconds of the loop's clock)."""
        config = self._gateway.config
        is_new = not self._had_request or not self._is_authenticated
        limit_ms = config.first_request_timeout_ms if is_new else config.connections_max_idle_ms
        return now - self._last_request > limit_ms / 1000

    # -- requests ----------------------------------------------------------------------------------------------------

    @property
    def _is_authenticated(self) -> bool:
        return self._sasl is None or self._sasl.is_authenticated

    async def _work(self) -> None:
        """Handle the frames in order."""
        try:
            while True:
                await self._handle(await self._next_frame())
        except asyncio.CancelledError:
            raise
        except (MalformedRequestError, UnknownVersionError) as error:
            logger.info("client %s: %s; connection closed", self._caller.host, error)
        except UpstreamUnavailableError as error:
            logger.warning("client %s is disconnected: %s", self._caller.host, error)
        except Exception:
            logger.exception("a request of client %s failed; connection closed", self._caller.host)
        self.close()

    async def _next_frame(self) -> memoryview:
        while not self._frames:
            self._arrived.clear()
            await self._arrived.wait()
        frame = self._frames.popleft()
        if not self._is_reading and len(self._frames) < MAX_WAITING_FRAMES // 2 and self.transport is not None:
            self._is_reading = True
            with contextlib.suppress(RuntimeError):  # the transport closes
                self.transport.resume_reading()
        return frame

    async def _handle(self, frame: memoryview) -> None:
        header = wire.read_header(frame)
        self._had_request = True
        if self._sasl is not None and not self._sasl.allows(header.api_key):
            raise MalformedRequestError(f"request {header.api_key} before authentication")
        message = self._gateway.messages.get(header.api_key)
        if message is None:
            await self._pass_through(header, frame)
            return
        await self._answers.join()  # one of our own at a time, and in order with what passes through
        await self._answers.put(await self._own(message, header, frame))

    async def _pass_through(self, header: RequestHeader, frame: memoryview) -> None:
        if not self._gateway.passes_through(header.api_key):
            raise UnknownVersionError(f"an API that is not offered: {header.api_key}")
        if self._passthrough is None:
            self._passthrough = self._gateway.passthrough(self._node_id)
        answer = await self._passthrough.forward(header, frame)
        if answer is not None:
            await self._answers.put(answer)

    async def _own(self, message: Any, header: RequestHeader, frame: memoryview) -> bytearray:
        low, high = message.valid_versions
        if header.api_key == API_VERSIONS and not low <= header.api_version <= high:
            return wire.encode_response(unsupported_version(), 0, header.correlation_id)
        body = wire.decode_request(message, header, frame)
        request = Request(header, body, self._caller)
        if self._sasl is not None and self._sasl.is_sasl(header.api_key):
            response = self._sasl.handle(request)
            if self._sasl.principal is not None:
                self._caller = Caller(self._connection_id, self._node_id, self._caller.host, self._sasl.principal)
        else:
            response = await self._gateway.handle(request)
        return wire.encode_response(response, header.api_version, header.correlation_id)

    # -- responses ---------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        """Send the answers in order, as fast as the client reads them."""
        try:
            while True:
                answer = await self._answers.get()
                try:
                    await self._send(answer)
                finally:
                    self._answers.task_done()
        except asyncio.CancelledError:
            raise
        except asyncio.TimeoutError:
            logger.info("client %s does not read its responses; connection closed", self._caller.host)
        except (UpstreamUnavailableError, ssl.SSLError, OSError) as error:
            logger.info("client %s is disconnected: %s", self._caller.host, error)
        self.close()

    async def _send(self, answer: Any) -> None:
        assert self.transport is not None
        if isinstance(answer, asyncio.Future):
            frame: memoryview = await answer
            self.transport.write(len(frame).to_bytes(4, "big"))
            self.transport.write(frame)
        else:
            self.transport.write(answer)
        if not self.is_drained:
            await asyncio.wait_for(self.drained(), UNREAD_TIMEOUT_S)
