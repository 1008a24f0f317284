"""How the client reaches a broker: a `Connector` opens a `Connection` to an address.

`SocketConnector` is the real one. A test passes another connector to the consumer, for example one that connects to a
server in the same process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kafka.protocol.api_message import ApiMessage

from sharegroup.client.clock import Clock, SteadyClock
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.connection import UpstreamConnection, fetch_features
from sharegroup.kafka_clients.connections.headers import Response
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError

__all__ = ["Connection", "Connector", "SocketConnector", "UpstreamUnavailableError"]

#: {api key: (min, max)}: the versions of each API that a broker supports.
ApiRanges = Mapping[int, tuple[int, int]]


class Connection(Protocol):
    """A connection to one broker. Requests are answered in their order."""

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""

    @property
    def api_ranges(self) -> ApiRanges:
        """The APIs of the broker, from its ApiVersions response."""

    async def ask(
        self, request: ApiMessage, response: type[Response], version: int, timeout_s: float = 30.0
    ) -> Response:
        """Send a request and return its response, an instance of `response`. Raises UpstreamUnavailableError."""

    def close(self) -> None:
        """Close; pending requests raise UpstreamUnavailableError. Closing twice has no effect."""


class Connector(Protocol):
    """Opens connections, and has the clock of the consumers that it connects."""

    @property
    def clock(self) -> Clock:
        """The clock."""

    async def connect(self, host: str, port: int, settings: ClientSettings) -> Connection:
        """Connect, authenticate and fetch the APIs of the broker. `settings` are kafka-python's.

        Raises UpstreamUnavailableError.
        """


class SocketConnector:
    """Opens TCP connections, with TLS and SASL by the settings."""

    clock: Clock = SteadyClock()

    async def connect(self, host: str, port: int, settings: ClientSettings) -> Connection:
        """Implement Connector."""
        connection = await UpstreamConnection.connect(host, port, settings)
        try:
            features = await fetch_features(connection)
        except BaseException:
            connection.close()
            raise
        return _SocketConnection(connection, features.ranges)


class _SocketConnection:
    def __init__(self, connection: UpstreamConnection, api_ranges: ApiRanges) -> None:
        self._connection, self.api_ranges = connection, api_ranges

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def ask(
        self, request: ApiMessage, response: type[Response], version: int, timeout_s: float = 30.0
    ) -> Response:
        return await self._connection.ask(request, response, version, timeout_s)

    def close(self) -> None:
        self._connection.close()
