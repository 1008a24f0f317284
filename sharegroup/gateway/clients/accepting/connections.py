"""Which clients are connected, and who has been silent for too long."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from sharegroup.gateway.clients.accepting.address_limits import AddressLimits
from sharegroup.gateway.clients.accepting.seldom import Seldom
from sharegroup.monitoring.metrics.client_counts import ClientCounts

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
    """All connections, those in their TLS handshake included, as `limits` allow. `ended` is told the id of each."""

    def __init__(self, limits: AddressLimits, ended: Callable[[int], None], counts: ClientCounts | None = None) -> None:
        self._limits, self._ended = limits, ended
        self._counts = counts or ClientCounts()
        #: {connection: the client's address}
        self._connections: dict[Connection, str] = {}
        self._refusals = Seldom()
        self._ids = itertools.count(1)
        self._is_empty = asyncio.Event()

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections)

    def new_id(self) -> int:
        """The id of a connection that is being made."""
        return next(self._ids)

    def add(self, connection: Connection, address: str) -> bool:
        """Take a connection in; False when there are too many."""
        now = asyncio.get_running_loop().time()
        refusal = self._limits.refusal(address, now * 1000)
        self._counts.connected(refusal is None)
        if refusal is None:
            self._connections[connection] = address
            return True
        if (more := self._refusals.due(now)) is not None:
            logger.warning("client %s is refused: %s%s", address, refusal, more)
        return False

    def remove(self, connection: Connection) -> None:
        """Take out the connection of a client that is gone, and tell `ended`."""
        address = self._connections.pop(connection, None)
        if address is not None:
            self._limits.ended(address)
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
