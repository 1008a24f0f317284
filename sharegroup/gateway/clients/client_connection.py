"""The connection of one client: reading, writing, idle checks and closing.

`RequestLoop` decodes and handles the requests. If a client does not read its responses, the gateway stops reading
requests from it. A client that has responses to read and reads nothing for `UNREAD_TIMEOUT_S` is disconnected.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import cast

from sharegroup.errors import RequestError
from sharegroup.gateway.clients.accepting.connections import Connections
from sharegroup.gateway.clients.accepting.keepalive import set_keepalive
from sharegroup.gateway.clients.request_loop import RequestLoop, Service
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.framing import FrameProtocol
from sharegroup.kafka_clients.connections.headers import MalformedRequestError, UnknownVersionError
from sharegroup.log_fields import LogFields
from sharegroup.security.caller import Caller
from sharegroup.security.tls import certificate_principal

logger = logging.getLogger(__name__)

#: A client is disconnected if it has responses to read and has read nothing for this long.
UNREAD_TIMEOUT_S = 60.0
WRITE_BUFFER_BYTES = 1_048_576
#: A client is disconnected if less than this part of a large request arrives in `gateway.request.stall.timeout.ms`.
PROGRESS_BYTES = 65_536


class ClientConnection(FrameProtocol):
    """The connection of one client. Reads the client's requests and writes the responses.

    `node_id` is the upstream broker whose port the client used. `is_standby` is True if the client used the standby
    port, which is for clients whose own gateway has failed.
    """

    def __init__(self, service: Service, connections: Connections, node_id: int, is_standby: bool = False) -> None:
        super().__init__(0)
        self._config, self._connections = service.config, connections
        self._loop = asyncio.get_running_loop()
        self.connection_id = connections.next_id()
        caller = Caller(self.connection_id, node_id, "", is_standby=is_standby)
        self._requests = RequestLoop(service, self, caller, self._disconnect)
        self._connected_at = self._last_request = self._loop.time()
        #: Progress of the large request that is arriving: (received bytes, time in seconds of the last progress).
        #: None if no large request is arriving.
        self._progress: tuple[int, float] | None = None
        self._unread_timer: asyncio.Handle | None = None

    # -- asyncio -----------------------------------------------------------------------------------------------------

    def register(self, transport: asyncio.Transport) -> bool:
        """Add this connection to `Connections`, before the TLS handshake if there is one. Return True.

        If a connection limit rejects the client, close the connection and return False.
        """
        self.transport = transport
        if self._connections.add(self, _address_of(transport)):
            set_keepalive(transport.get_extra_info("socket"), self._config.tcp_keepalive_ms)
            return True
        self.close()
        return False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving the client. asyncio calls this method after the TLS handshake, if there is one."""
        transport = cast(asyncio.Transport, transport)
        if self.transport is None and not self.register(transport):
            return
        super().connection_made(transport)
        try:
            transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
            principal = certificate_principal(transport.get_extra_info("ssl_object"))
            self._requests.start(_address_of(transport), principal)
        except Exception as error:  # noqa: BLE001 - asyncio would keep the connection open, unserved
            self._disconnect(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the client's requests, and remove the connection from `Connections`.

        `Connections.remove` also closes the client's share sessions.
        """
        super().connection_lost(exc)
        self._stop_unread_timer()
        self._requests.close()
        self._connections.remove(self)

    def frame_received(self, frame: memoryview) -> None:
        """Queue a received frame, which is one request, until `RequestLoop` handles it."""
        self._last_request = self._loop.time()
        self._requests.enqueue(frame)

    def frame_problem(self, size: int, head: memoryview) -> str | None:
        """Return an error message if a request of `size` bytes is too long, else None.

        The limit depends on the API key, which is in `head`, the first bytes of the request.
        """
        return self._requests.size_problem(size, head)

    def handle_frame_start(self, size: int) -> None:
        """If a request is large, stop reading its body until there is memory for it (`WaitingFrames.begin_request`)."""
        self._progress = None
        self._requests.begin_request(size)

    def frame_error(self, problem: str) -> None:
        """Disconnect the client, because it sent a request that is too long, or something other than a request."""
        self._disconnect(MalformedRequestError(problem))

    def pause_writing(self) -> None:
        """Start the timer for unread responses. asyncio calls this method when the write buffer is full."""
        super().pause_writing()
        self._stop_unread_timer()
        self._unread_timer = self._loop.call_soon(self._expect_reading)  # after the rest of the response is written

    def resume_writing(self) -> None:
        """Stop the timer for unread responses. asyncio calls this method when the write buffer has room again."""
        super().resume_writing()
        self._stop_unread_timer()

    # -- closing -----------------------------------------------------------------------------------------------------

    def drain(self, may_close: Callable[[int], bool]) -> None:
        """Close the connection when all requests have been answered and `may_close(connection_id)` returns True.

        `may_close` is called as soon as the requests have been answered, and again after each further request.
        """
        self._requests.drain(partial(may_close, self.connection_id))

    def close(self) -> None:
        """Close the connection without handling or sending anything further."""
        self._requests.stop()
        self.abort()

    def is_idle(self, now: float) -> bool:
        """Return whether the client must be disconnected because of a timeout.

        There are timeouts for the login or first request, for idle clients, and for a large request that has stopped
        arriving. The method also records how much of a large request has arrived, so it must be called regularly.
        `now` is the event loop's time in seconds.
        """
        if not self._requests.had_request or not self._requests.is_authenticated:
            return now - self._connected_at > self._config.first_request_timeout_ms / 1000
        return now - self._last_request > self._config.connections_max_idle_ms / 1000 or self._is_stalled(now)

    def _is_stalled(self, now: float) -> bool:
        """Return whether a large request has stopped arriving, and record its progress.

        Only a request that holds a share of the memory budget counts as large.
        """
        received = self.unfinished_bytes if self._requests.has_share else None
        if received is None:
            self._progress = None
        elif self._progress is None or received >= self._progress[0] + PROGRESS_BYTES:
            self._progress = received, now
        return self._progress is not None and now - self._progress[1] > self._config.request_stall_timeout_ms / 1000

    def _disconnect(self, problem: Exception) -> None:
        """Close the connection and log why.

        A fault of the client is logged at INFO, a fault of the brokers at WARNING and a fault of the gateway at ERROR.
        """
        self.close()
        client = self._requests.caller.host
        if isinstance(problem, (MalformedRequestError, UnknownVersionError, RequestError)):
            logger.info("client %(client)s disconnected: %(error)s", LogFields(client=client, error=problem))
        elif isinstance(problem, UpstreamUnavailableError):
            self._connections.log_interrupted(client, problem)
        else:
            logger.error(
                "client %(client)s disconnected: handling its request failed",
                LogFields(client=client),
                exc_info=problem,
            )

    def _expect_reading(self) -> None:
        if self.transport is not None:
            unread_bytes = self.transport.get_write_buffer_size()
            self._unread_timer = self._loop.call_later(UNREAD_TIMEOUT_S, self._check_reading, unread_bytes)

    def _check_reading(self, unread_bytes: int) -> None:
        if self.transport is None:
            return
        if self.transport.get_write_buffer_size() < unread_bytes:
            self._expect_reading()
            return
        logger.info(
            "client %(client)s disconnected: it does not read its responses",
            LogFields(client=self._requests.caller.host),
        )
        self.close()

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None


def _address_of(transport: asyncio.BaseTransport) -> str:
    """Return the client's IP address; empty if the client has already disconnected."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if peer else ""
