"""One connection to an upstream broker: frames in order, whoever wrote them.

`forward` takes a client's frame as it is, `ask` a request of our own. Kafka answers in the order of the requests, so
the responses belong to the requests that wait, first come first served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from sharegroup.errors import ErrorCode, ShareGroupError
from sharegroup.gateway import wire
from sharegroup.gateway.framing import FrameProtocol

logger = logging.getLogger(__name__)

CLIENT_ID = "sharegroup-gateway"
CONNECT_TIMEOUT_S = 10.0
#: A broker's largest response is not ours to limit; this is what a length field can say.
MAX_RESPONSE_BYTES = 2**31 - 1


class UpstreamUnavailableError(ShareGroupError):
    """The upstream broker cannot be reached, or did not answer in time."""


class Features(NamedTuple):
    """A broker's ApiVersions response: {api key: (min, max)}, and its feature lists as they came."""

    ranges: Mapping[int, tuple[int, int]]
    response: Any


class UpstreamConnection(FrameProtocol):
    """A connected broker. `forward` and `ask` raise UpstreamUnavailableError once it is lost."""

    def __init__(self) -> None:
        super().__init__(MAX_RESPONSE_BYTES)
        self._waiting: deque[tuple[int, asyncio.Future[memoryview]]] = deque()
        self._next_correlation_id = 0
        self.is_open = False

    @classmethod
    async def connect(cls, host: str, port: int, settings: Mapping[str, Any]) -> UpstreamConnection:
        """Connect and authenticate; `settings` are kafka-python's (security_protocol, ssl_*, sasl_*)."""
        loop = asyncio.get_running_loop()
        context = tls_context(settings)
        try:
            _, connection = await asyncio.wait_for(
                loop.create_connection(cls, host, port, ssl=context), CONNECT_TIMEOUT_S
            )
        except (OSError, asyncio.TimeoutError) as error:
            raise UpstreamUnavailableError(f"broker {host}:{port} cannot be reached: {error}") from error
        if settings.get("security_protocol", "").startswith("SASL"):
            try:
                await _authenticate(connection, host, settings)
            except BaseException:
                connection.close()
                raise
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's."""
        super().connection_made(transport)
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's: nobody will answer what waits."""
        super().connection_lost(exc)
        self.is_open = False
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(UpstreamUnavailableError(f"the upstream broker closed the connection: {exc}"))
                future.exception()  # whoever waited may be gone as well

    def frame_received(self, frame: memoryview) -> None:
        """A response: the oldest request's."""
        if not self._waiting or len(frame) < 4 or self._waiting[0][0] != wire.correlation_id(frame):
            self.frame_error("a response that nobody asked for")
            return
        _, future = self._waiting.popleft()
        if not future.done():
            future.set_result(frame)

    def frame_error(self, problem: str) -> None:
        """The broker does not speak Kafka's protocol."""
        logger.error("upstream broker: %s", problem)
        self.close()

    def forward(self, frame: bytes | bytearray | memoryview, correlation_id: int) -> asyncio.Future[memoryview]:
        """Send a framed request; the future gives the response's frame."""
        self.send(frame)
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append((correlation_id, future))
        return future

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        """Send a framed request that has no response (Produce with acks=0)."""
        if not self.is_open or self.transport is None:
            raise UpstreamUnavailableError("the connection to the upstream broker is closed")
        self.transport.write(frame)

    async def ask(self, request: Any, response: Any, version: int, timeout_s: float = 30.0) -> Any:
        """A request of our own: kafka-python's message in, an instance of the class `response` out."""
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        number = self._next_correlation_id
        future = self.forward(wire.encode_request(request, version, number, CLIENT_ID), number)
        try:
            frame = await asyncio.wait_for(future, timeout_s)
        except asyncio.TimeoutError:
            self.close()  # the late response would be taken for the next one's
            raise UpstreamUnavailableError(f"no answer from the upstream broker within {timeout_s:g} s") from None
        return wire.decode_response(response, version, frame)

    def close(self) -> None:
        """Close; who waits gets UpstreamUnavailableError."""
        self.is_open = False
        if self.transport is not None:
            self.transport.abort()


async def features(connection: UpstreamConnection) -> Features:
    """What the broker offers. Old brokers know only version 0 of the question."""
    request = ApiVersionsRequest(client_software_name="sharegroup", client_software_version="1")
    response = await connection.ask(request, ApiVersionsResponse, 3)
    if response.error_code:
        response = await connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
    ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    return Features(ranges, response)


def tls_context(settings: Mapping[str, Any]) -> ssl.SSLContext | None:
    """The client side's TLS by kafka-python's settings, None without TLS."""
    if not settings.get("security_protocol", "").endswith("SSL"):
        return None
    context = ssl.create_default_context(cafile=settings.get("ssl_cafile"))
    check = settings.get("ssl_check_hostname", True)
    endpoint = settings.get("ssl_endpoint_identification_algorithm", "https")  # Java's name; empty: off
    context.check_hostname = str(check).lower() != "false" and endpoint != ""
    if settings.get("ssl_certfile"):
        context.load_cert_chain(settings["ssl_certfile"], settings.get("ssl_keyfile"), settings.get("ssl_password"))
    return context


async def _authenticate(connection: UpstreamConnection, host: str, settings: Mapping[str, Any]) -> None:
    name = settings.get("sasl_mechanism", "PLAIN")
    handshake = await connection.ask(SaslHandshakeRequest(mechanism=name), SaslHandshakeResponse, 1)
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms)
        raise UpstreamUnavailableError(f"the upstream broker has no SASL mechanism {name}; it has {offered}")
    mechanism = get_sasl_mechanism(name)(host=host, **{"sasl_mechanism": name, **settings})
    while not mechanism.is_done():
        request = SaslAuthenticateRequest(auth_bytes=mechanism.auth_bytes())
        response = await connection.ask(request, SaslAuthenticateResponse, 0)
        if response.error_code != ErrorCode.NONE:
            raise UpstreamUnavailableError(f"the upstream broker refuses our login: {response.error_message}")
        mechanism.receive(bytes(response.auth_bytes))
    if not mechanism.is_authenticated():
        raise UpstreamUnavailableError("the upstream broker's login failed")


class KeptConnection:
    """A connection that is made when it is needed, and again when it was lost."""

    def __init__(self, host: str, port: int, settings: Mapping[str, Any]) -> None:
        self._host, self._port, self._settings = host, port, settings
        self._connection: UpstreamConnection | None = None
        self._lock = asyncio.Lock()
        self._features: Features | None = None

    async def get(self) -> UpstreamConnection:
        """The open connection. Raises UpstreamUnavailableError."""
        async with self._lock:
            if self._connection is None or not self._connection.is_open:
                self._connection = await UpstreamConnection.connect(self._host, self._port, self._settings)
                self._features = await features(self._connection)
            return self._connection

    async def features(self) -> Features:
        """What the broker offers, as of the newest connection. Raises UpstreamUnavailableError."""
        await self.get()
        assert self._features is not None
        return self._features

    async def ask(self, request: Any, response: Any, max_version: int | None = None, timeout_s: float = 30.0) -> Any:
        """Ask in the newest version that both know (at most `max_version`). Raises UpstreamUnavailableError."""
        connection = await self.get()
        assert self._features is not None
        return await connection.ask(request, response, common_version(self._features, request, max_version), timeout_s)

    def close(self) -> None:
        """Close; it may be opened again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def common_version(offered: Features, request: Any, max_version: int | None) -> int:
    """The newest version of `request` that both know. Raises UpstreamUnavailableError when there is none."""
    low, high = request.valid_versions
    broker_low, broker_high = offered.ranges.get(request.API_KEY, (1, 0))
    version = min(high, broker_high, high if max_version is None else max_version)
    if version < max(low, broker_low):
        raise UpstreamUnavailableError(f"the upstream broker has no {request.name} of a version that is known here")
    return int(version)


@contextlib.asynccontextmanager
async def closing_connection(host: str, port: int, settings: Mapping[str, Any]) -> Any:
    """A connection for one exchange."""
    connection = await UpstreamConnection.connect(host, port, settings)
    try:
        yield connection
    finally:
        connection.close()
