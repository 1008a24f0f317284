"""Connections of the page: how many there may be, and how long each may keep the page waiting.

uvicorn's own limit counts connections as requests, so silent connections would close the page. Here the number of
connections is limited for each address, and a connection that does not send its request in time is closed. The time
begins when the connection is open and after each response; bytes that trickle in do not extend it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sharegroup.gateway.clients.accepting.address_limits import AddressLimits
from sharegroup.gateway.clients.accepting.seldom import Seldom

logger = logging.getLogger(__name__)

#: Connections in all, and of one address. Browsers open six, and close them when they have nothing to load.
MOST_CONNECTIONS, MOST_OF_AN_ADDRESS = 1_000, 250
#: For a client to send a request, or to read what it was sent.
PATIENCE_S = 20.0


class PageConnections:
    """What uvicorn makes connections with. `overrides` are limits of addresses of their own, such as of a proxy."""

    def __init__(self, overrides: Mapping[str, int], patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._limits = AddressLimits(MOST_CONNECTIONS, MOST_OF_AN_ADDRESS, overrides, creation_rate=0)
        self._refused = Seldom()

    def __call__(self, **settings: Any) -> PageConnection:
        """A connection, with uvicorn's own arguments."""
        return PageConnection(self, **settings)

    def admit(self, address: str, now_s: float) -> bool:
        """Whether a new connection of an address has a place. If it has, call `ended` at its end."""
        problem = self._limits.refusal(address, now_s * 1000)
        if problem is not None and (more := self._refused.due(now_s)) is not None:
            logger.warning("connection of %s to the page refused: %s%s", address, problem, more)
        return problem is None

    def ended(self, address: str) -> None:
        """A connection that had a place is closed."""
        self._limits.ended(address)


class PageConnection(H11Protocol):
    """One connection of a browser."""

    def __init__(self, connections: PageConnections, **settings: Any) -> None:
        super().__init__(**settings)
        self._of = connections
        self._address: str | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """See asyncio.Protocol."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if not self._of.admit(address, self.loop.time()):
            transport.abort()
            return
        self._address = address
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._address is not None:
            self._of.ended(self._address)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """See uvicorn's."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        """Start the deadline when the page begins to wait for the client, and stop it when it no longer waits."""
        is_waiting = self.flow.write_paused or self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if self.transport.is_closing() or not is_waiting:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._of.patience_s, self.transport.abort)
