"""Connections of the client to brokers: a `Connector` opens a `Connection` to an address.

`SocketConnector` opens real connections. A test can pass another connector to the consumer, for example one that
connects to a server in the same process.
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

#: The API versions that a broker supports: {API key: (min version, max version)}.
ApiRanges = Mapping[int, tuple[int, int]]


class Connection(Protocol):
    """A connection to one broker. Responses arrive in the order of the requests."""

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""

    @property
    def api_ranges(self) -> ApiRanges:
        """The APIs and versions that the broker supports, from its ApiVersions response."""

    async def ask(
        self, request: ApiMessage, response: type[Response], version: int, timeout_s: float = 30.0
    ) -> Response:
        """Send a request and return the response. Raises UpstreamUnavailableError if no response arrives."""

    def close(self) -> None:
        """Close the connection. Pending requests raise UpstreamUnavailableError. A second call has no effect."""


class Connector(Protocol):
    """Opens connections to brokers, and provides the clock of the consumers that use it."""

    @property
    def clock(self) -> Clock:
        """The clock of the consumers that use this connector."""

    async def connect(self, host: str, port: int, settings: ClientSettings) -> Connection:
        """Connect to a broker, authenticate, and fetch the broker's API versions. `settings` are kafka-python's.

        Raises UpstreamUnavailableError if any of these steps fails.
        """


class SocketConnector:
    """Opens TCP connections. The settings determine whether TLS and SASL are used."""

    clock: Clock = SteadyClock()

    async def connect(self, host: str, port: int, settings: ClientSettings) -> Connection:
        """Open a TCP connection and fetch the broker's API versions, as described in `Connector.connect`."""
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
