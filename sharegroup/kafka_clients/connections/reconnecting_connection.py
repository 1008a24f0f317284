"""A connection to an upstream broker for this process's own requests, opened and reopened when it is needed.

There is one attempt to connect at a time, and all waiting requests share its result. After a failure the next attempt
is delayed, and requests wait for this attempt. So an unavailable broker does not receive many attempts, even if clients
retry without a backoff of their own.
"""

import asyncio

from kafka.protocol.api_message import ApiMessage

from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.connection import (
    Features,
    UpstreamConnection,
    UpstreamUnavailableError,
    fetch_features,
)
from sharegroup.kafka_clients.connections.headers import Response

FIRST_PAUSE_S, MAX_PAUSE_S = 0.1, 1.0


class ConnectBackoff:
    """The delay between attempts to connect, which doubles with each failure, from 0.1 s to at most 1 s.

    The argument `now` of the methods is the event loop's time in s.
    """

    def __init__(self) -> None:
        self._pause_s = FIRST_PAUSE_S
        self._not_before = float("-inf")

    def record_failure(self, now: float) -> None:
        """Record a failed attempt. This delays the next attempt, and doubles the delay after the next failure."""
        self._not_before = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)

    def record_success(self) -> None:
        """Record a successful attempt, which resets the delay."""
        self._pause_s = FIRST_PAUSE_S

    def remaining_s(self, now: float) -> float:
        """Return the time in seconds until the next attempt is allowed."""
        return max(0.0, self._not_before - now)


class ReconnectingConnection:
    """A connection to a broker that is reopened as needed. Methods raise UpstreamUnavailableError."""

    def __init__(self, host: str, port: int, settings: ClientSettings) -> None:
        self._host, self._port, self._settings = host, port, settings
        self._connected: tuple[UpstreamConnection, Features] | None = None
        self._connecting: asyncio.Task[tuple[UpstreamConnection, Features]] | None = None
        self._backoff = ConnectBackoff()

    async def features(self) -> Features:
        """Return the APIs that the broker supports. They are requested once for each connection."""
        return (await self._get())[1]

    async def ask(
        self, request: ApiMessage, response: type[Response], max_version: int | None = None, timeout_s: float = 30.0
    ) -> Response:
        """Send a request, and return its response, an instance of `response`.

        The request has the newest version that both sides support, at most `max_version`.
        """
        connection, offered = await self._get()
        return await connection.ask(request, response, common_version(offered, request, max_version), timeout_s)

    def close(self) -> None:
        """Close the connection. Waiting requests raise UpstreamUnavailableError. A later request connects again."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connected is not None:
            self._connected[0].close()
            self._connected = None

    async def _get(self) -> tuple[UpstreamConnection, Features]:
        connected = self._connected
        if connected is not None and connected[0].is_open:
            return connected
        task = self._connecting
        if task is None:
            task = self._connecting = asyncio.ensure_future(self._connect())
            task.add_done_callback(self._attempted)
        try:
            return await asyncio.shield(task)  # a cancelled request does not cancel the attempt for others
        except asyncio.CancelledError:
            if task.cancelled():
                raise UpstreamUnavailableError("the connection to the upstream broker was closed") from None
            raise

    async def _connect(self) -> tuple[UpstreamConnection, Features]:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._backoff.remaining_s(loop.time()))
        connection = None
        try:
            connection = await self._open()
            connected = connection, await fetch_features(connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, UpstreamUnavailableError):
                self._backoff.record_failure(loop.time())
            raise
        self._backoff.record_success()
        self._connected = connected
        return connected

    async def _open(self) -> UpstreamConnection:
        return await UpstreamConnection.connect(self._host, self._port, self._settings)

    def _attempted(self, task: asyncio.Task[tuple[UpstreamConnection, Features]]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved: all waiters may be gone


def common_version(offered: Features, request: ApiMessage, max_version: int | None) -> int:
    """Return the newest version of `request` that both sides support, at most `max_version`.

    Raises UpstreamUnavailableError if there is no such version.
    """
    low, high = request.valid_versions
    broker_low, broker_high = offered.ranges.get(request.API_KEY, (1, 0))
    version = min(high, broker_high, high if max_version is None else max_version)
    if version < max(low, broker_low):
        raise UpstreamUnavailableError(f"the upstream broker supports no known version of {request.name}")
    return int(version)
