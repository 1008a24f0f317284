"""One connection to an upstream broker, shared by forwarded requests of clients and by requests of this process.

`forward` sends a client's request unchanged. `ask` encodes and sends a request of this process. Kafka responds in the
order of the requests, so each response belongs to the oldest pending request.

A SASL session may have a limited lifetime (KIP-368). If a request is sent after the session ended, the broker closes
the connection. So `ask` and `keep_session` reauthenticate before the session ends. `forward` does not, so its callers
call `keep_session` or `log_in` in time. Earlier requests may still be pending at a reauthentication. Later requests
wait, because a broker accepts no other request during a reauthentication.
"""

import asyncio
import functools
import logging
import math
import ssl
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.kafka_clients.connections.broker_login import log_in, reauthentication_delay_s
from sharegroup.kafka_clients.connections.framing import FrameProtocol
from sharegroup.kafka_clients.connections.headers import Response
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError
from sharegroup.log_fields import LogFields

__all__ = ["Features", "UpstreamConnection", "UpstreamUnavailableError", "fetch_features", "tls_context"]

logger = logging.getLogger(__name__)

#: The client id of requests, unless the settings have `client_id`.
CLIENT_ID = "sharegroup-gateway"
CONNECT_TIMEOUT_S = 10.0
#: Responses larger than LARGE_BYTES are decoded on another thread, because decoding takes milliseconds and would delay
#: the event loop. Responses to FETCHES (the API keys of Fetch and ShareFetch) are decoded on the event loop. They are
#: large because of their records, and records are not decoded.
LARGE_BYTES, FETCHES = 65_536, (1, 78)
#: The largest length that a frame can have. Brokers do not limit the size of their responses.
MAX_RESPONSE_BYTES = 2**31 - 1


class Features(NamedTuple):
    """The APIs that a broker supports: its ApiVersions response, and the version ranges in this response.

    `ranges` is {API key: (min version, max version)}.
    """

    ranges: Mapping[int, tuple[int, int]]
    response: ApiVersionsResponse


class UpstreamConnection(FrameProtocol):
    """A connection to a broker. `forward` and `ask` raise UpstreamUnavailableError after the connection was lost."""

    trusts_lengths = True

    def __init__(self) -> None:
        super().__init__(MAX_RESPONSE_BYTES)
        self._waiting: deque[tuple[int, asyncio.Future[memoryview]]] = deque()
        self._next_correlation_id = 0
        self._client_id = CLIENT_ID
        self._host = ""
        self._settings: ClientSettings = {}
        self._reauthenticate_s = math.inf
        self._reauthentication = asyncio.Lock()
        self.is_open = False
        #: Lifetime in ms of the SASL session that the login started, 0 if it is unlimited.
        self.session_lifetime_ms = 0

    @classmethod
    async def connect(cls, host: str, port: int, settings: ClientSettings) -> Self:
        """Connect and authenticate; `settings` are kafka-python's (client_id, security_protocol, ssl_*, sasl_*).

        Raises UpstreamUnavailableError, or UpstreamLoginRejectedError if the login is rejected.
        """
        loop = asyncio.get_running_loop()
        try:
            context = tls_context(settings)
            _, connection = await asyncio.wait_for(
                loop.create_connection(cls, host, port, ssl=context), CONNECT_TIMEOUT_S
            )
        except (TimeoutError, OSError) as error:
            raise UpstreamUnavailableError(f"could not connect to broker {host}:{port}: {error}") from error
        connection._client_id, connection._host = settings.get("client_id", CLIENT_ID), host
        try:
            await connection.log_in(settings)
        except BaseException:
            connection.close()
            raise
        return connection

    async def log_in(self, settings: ClientSettings) -> None:
        """Authenticate, or reauthenticate with new settings. Without SASL, nothing is sent.

        The caller must not send other requests meanwhile. Raises the same errors as `connect`.
        """
        self._settings = settings
        if settings.get("security_protocol", "").startswith("SASL"):
            self.session_lifetime_ms = await log_in(self, self._host, settings)
            delay_s = reauthentication_delay_s(self.session_lifetime_ms)
            self._reauthenticate_s = asyncio.get_running_loop().time() + delay_s

    async def keep_session(self) -> None:
        """Reauthenticate if the session ends soon or has ended.

        If this fails, the connection is closed. Raises the same errors as `connect`.
        """
        if self._is_session_ending():
            async with self._reauthentication:
                if self._is_session_ending():  # still, after another request had the lock
                    try:
                        await self.log_in(self._settings)
                    except BaseException:
                        self.close()  # the broker expects the rest of the login
                        raise

    def _is_session_ending(self) -> bool:
        return asyncio.get_running_loop().time() >= self._reauthenticate_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Mark the connection as open. Called by asyncio."""
        super().connection_made(transport)
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all pending requests. Called by asyncio."""
        super().connection_lost(exc)
        self.is_open = False
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(UpstreamUnavailableError(f"the upstream broker closed the connection: {exc}"))
                future.exception()  # marks it as retrieved: its waiter may be gone

    def frame_received(self, frame: memoryview) -> None:
        """Complete the oldest pending request with its response."""
        if not self._waiting or len(frame) < 4 or self._waiting[0][0] != wire.correlation_id(frame):
            self.frame_error("received a response without a pending request")
            return
        _, future = self._waiting.popleft()
        if not future.done():
            future.set_result(frame)

    def frame_error(self, problem: str) -> None:
        """Log a violation of the protocol, and close the connection."""
        logger.error("closing a connection after a protocol error of a broker: %(error)s", LogFields(error=problem))
        self.close()

    def forward(self, frame: bytes | bytearray | memoryview, correlation_id: int) -> asyncio.Future[memoryview]:
        """Send an encoded request, and return a future of its encoded response.

        Neither of them includes its length prefix. `correlation_id` is the correlation id in the request.
        """
        self.send(frame)
        return self._response_to(correlation_id)

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        """Send a request that has no response (Produce with acks=0)."""
        self._open_transport()
        self.write_frame(frame)

    async def ask(
        self, request: ApiMessage, response: type[Response], version: int, timeout_s: float = 30.0
    ) -> Response:
        """Send a request and return its response, an instance of `response`.

        If the SASL session ends soon, reauthenticate first.
        """
        await self.keep_session()
        return await self.exchange(request, response, version, timeout_s)

    async def exchange(
        self, request: ApiMessage, response: type[Response], version: int, timeout_s: float = 30.0
    ) -> Response:
        """Send a request without reauthenticating first (see `ask`), and return its response.

        If there is no response within `timeout_s`, the connection is closed, and UpstreamUnavailableError is raised.
        """
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        number = self._next_correlation_id
        self._open_transport().write(wire.encode_request(request, version, number, self._client_id))
        future = self._response_to(number)
        try:
            async with asyncio.timeout(timeout_s):
                frame = await future
        except TimeoutError:
            self.close()  # a late response would be assigned to the next request
            raise UpstreamUnavailableError(f"the upstream broker did not respond within {timeout_s:g} s") from None
        if len(frame) > LARGE_BYTES and response.API_KEY not in FETCHES:
            return await asyncio.to_thread(wire.decode_response, response, version, frame)
        return wire.decode_response(response, version, frame)

    def _open_transport(self) -> asyncio.Transport:
        if not self.is_open or self.transport is None:
            raise UpstreamUnavailableError("the connection to the upstream broker is closed")
        return self.transport

    def _response_to(self, correlation_id: int) -> asyncio.Future[memoryview]:
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append((correlation_id, future))
        return future

    def close(self) -> None:
        """Close the connection. Pending requests raise UpstreamUnavailableError."""
        self.is_open = False
        self.abort()


async def fetch_features(connection: UpstreamConnection) -> Features:
    """Request the APIs that the broker supports. Old brokers reject version 3 of ApiVersions, so they get version 0."""
    request = ApiVersionsRequest(client_software_name="sharegroup", client_software_version="1")
    response = await connection.ask(request, ApiVersionsResponse, 3, CONNECT_TIMEOUT_S)
    if response.error_code:
        response = await connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0, CONNECT_TIMEOUT_S)
    ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    return Features(ranges, response)


def tls_context(settings: ClientSettings) -> ssl.SSLContext | None:
    """Return the client TLS context for kafka-python's settings, None without TLS.

    All connections with the same settings share one context until one of its files changes. Creating a context reads
    all certificate authorities, which takes a megabyte and about ten milliseconds.
    """
    if not settings.get("security_protocol", "").endswith("SSL"):
        return None
    authorities, certificate, key = (
        _File.of(settings.get(name)) for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
    )
    check_hostname = settings.get("ssl_check_hostname", True)
    return _shared_context(authorities, certificate, key, settings.get("ssl_password"), check_hostname)


class _File(NamedTuple):
    """A file's path and modification time. It is part of a cache key, so a changed file is read again."""

    path: str | None
    changed_ns: int

    @classmethod
    def of(cls, path: str | None) -> Self:
        """Return the path with the modification time of its file.

        If there is no file, the time is 0. The error for the missing file is raised later, when the file is read.
        """
        try:
            return cls(path, Path(path).stat().st_mtime_ns if path else 0)
        except OSError:
            return cls(path, 0)


@functools.lru_cache(maxsize=4)
def _shared_context(
    authorities: _File, certificate: _File, key: _File, password: str | None, check_hostname: bool
) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authorities.path)
    context.check_hostname = check_hostname
    if certificate.path:
        context.load_cert_chain(certificate.path, key.path, password)
    return context
