"""Which clients are connected: how many may be, and who has been silent for too long."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from sharegroup.metrics.client_counts import ClientCounts

logger = logging.getLogger(__name__)


class Connection(Protocol):
    """What is asked of a client's connection here."""

    connection_id: int

    def is_idle(self, now: float) -> bool:
        """Whether the client has been silent for too long (seconds of the loop's clock)."""

    def drain(self, may_go: Callable[[int], bool]) -> None:
        """Close the connection when all is answered and `may_go` says so of its id."""

    def close(self) -> None:
        """Close the connection without sending the rest."""


class Connections:
    """All connections, those in their TLS handshake included: `most` at a time. `ended` is told the id of each."""

    def __init__(self, most: int, ended: Callable[[int], None], counts: ClientCounts | None = None) -> None:
        self._most, self._ended = most, ended
        self._counts = counts or ClientCounts()
        self._connections: set[Connection] = set()
        self._ids = itertools.count(1)
        self._is_empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections)

    def new_id(self) -> int:
        """The id of a connection that is being made."""
        return next(self._ids)

    def add(self, connection: Connection) -> bool:
        """Take a connection in; False when there are too many."""
        has_place = len(self._connections) < self._most
        self._counts.connected(has_place)
        if not has_place:
            logger.warning("more than %d connections: one is refused", self._most)
            return False
        self._connections.add(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """Take out the connection of a client that is gone, and tell `ended`."""
        self._connections.discard(connection)
        if not self._connections:
            self._is_empty.set()
        self._ended(connection.connection_id)

    def close_idle(self) -> None:
        """Disconnect the clients that have been silent for too long."""
        now = asyncio.get_running_loop().time()
        for connection in [connection for connection in self._connections if connection.is_idle(now)]:
            self._counts.closed_idle()
            connection.close()

    async def drain(self, may_go: Callable[[int], bool], timeout_s: float) -> bool:
        """Disconnect each client once it is answered and `may_go`; whether all are gone within that time."""
        self._is_empty.clear()
        for connection in self._connections:
            connection.drain(may_go)
        with contextlib.suppress(asyncio.TimeoutError):
            if self._connections:
                await asyncio.wait_for(self._is_empty.wait(), timeout_s)
        return not self._connections

    def close(self) -> None:
        """Disconnect all clients."""
        for connection in list(self._connections):
            connection.close()
