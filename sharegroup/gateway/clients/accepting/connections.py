"""The client connections of the gateway: limits on new ones, timeouts of idle ones, and the drain."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from sharegroup.gateway.clients.accepting.address_limits import AddressLimits
from sharegroup.gateway.clients.accepting.log_throttle import LogThrottle
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError
from sharegroup.log_fields import LogFields
from sharegroup.monitoring.metrics.client_counts import ClientCounts

logger = logging.getLogger(__name__)


class Connection(Protocol):
    """The methods of a client connection that `Connections` uses."""

    connection_id: int

    def is_idle(self, now: float) -> bool:
        """Return whether a timeout of the client has expired at `now`, the event loop's time in seconds."""

    def drain(self, may_close: Callable[[int], bool]) -> None:
        """Close the connection when all requests have been answered and `may_close(connection_id)` returns True."""

    def close(self) -> None:
        """Close the connection without sending queued responses."""


class Connections:
    """All client connections that `limits` has not rejected, including those in a TLS handshake.

    `on_end` is called with the id of each connection that has ended, even if it was rejected.
    """

    def __init__(
        self, limits: AddressLimits, on_end: Callable[[int], None], counts: ClientCounts | None = None
    ) -> None:
        self._limits, self._on_end = limits, on_end
        self._counts = counts or ClientCounts()
        #: {connection: the client's address}
        self._connections: dict[Connection, str] = {}
        self._rejected, self._interrupted = LogThrottle(), LogThrottle()
        self._ids = itertools.count(1)
        self._is_empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections)

    def next_id(self) -> int:
        return next(self._ids)

    def add(self, connection: Connection, address: str) -> bool:
        """Add a connection of the client at `address` and return True. If a limit rejects it, return False.

        The reason for a rejection is logged. The log is throttled.
        """
        now = asyncio.get_running_loop().time()
        problem = self._limits.add_or_reject(address, now * 1000)
        self._counts.count_connection(problem is None)
        if problem is None:
            self._connections[connection] = address
            return True
        if (suffix := self._rejected.next_suffix(now)) is not None:
            logger.warning(
                "rejected a connection of client %(client)s: %(error)s%(detail)s",
                LogFields(client=address, error=problem, detail=suffix),
            )
        return False

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has ended, and call `on_end` with its id."""
        address = self._connections.pop(connection, None)
        if address is not None:
            self._limits.remove(address)
        if not self._connections:
            self._is_empty.set()
        self._on_end(connection.connection_id)

    def log_interrupted(self, client: str, error: UpstreamUnavailableError) -> None:
        """Log that a client is disconnected because of an error of the brokers.

        The log is throttled, because such an error may affect all clients at once.
        """
        if (suffix := self._interrupted.next_suffix(asyncio.get_running_loop().time())) is not None:
            logger.warning(
                "client %(client)s disconnected: %(error)s%(detail)s",
                LogFields(client=client, error=error, detail=suffix),
            )

    def close_idle(self) -> None:
        """Disconnect the clients for which `is_idle` returns True, because a timeout has expired."""
        now = asyncio.get_running_loop().time()
        for connection in [connection for connection in self._connections if connection.is_idle(now)]:
            self._counts.count_idle_close()
            connection.close()

    async def drain(self, may_close: Callable[[int], bool], timeout_s: float) -> bool:
        """Disconnect each client when it has all responses and `may_close(connection_id)` returns True.

        Wait for this for up to `timeout_s` seconds. Return whether all connections have ended.
        """
        self._is_empty.clear()
        for connection in self._connections:
            connection.drain(may_close)
        with contextlib.suppress(asyncio.TimeoutError):
            if self._connections:
                await asyncio.wait_for(self._is_empty.wait(), timeout_s)
        return not self._connections

    def close(self) -> None:
        """Disconnect all clients."""
        for connection in list(self._connections):
            connection.close()
