"""Limits the number of connections to the page, and the time that the page waits for a client.

uvicorn's own limit of concurrent requests also counts idle connections, which could therefore block the page. Here, the
number of connections is limited in total and for each address. A connection is closed if the client does not send its
request in time. The time starts when the connection is opened, and starts again after each response. Bytes of an
incomplete request do not extend it. A connection is also closed if the client does not read the response in time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sharegroup.gateway.clients.accepting.address_limits import AddressLimits
from sharegroup.gateway.clients.accepting.log_throttle import LogThrottle
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: Maximum connections in total and from one address. Browsers open six, and close them when they are idle.
MOST_CONNECTIONS, MOST_OF_AN_ADDRESS = 1_000, 250
#: Maximum time for a client to send a request, or to read a response, in seconds.
PATIENCE_S = 20.0


class PageConnections:
    """Creates the connections for uvicorn. Limits their number, in total and from each address.

    `overrides` is {IP address: maximum connections}, for addresses such as that of a proxy. `patience_s` is the time
    that the page waits for a client, in seconds.
    """

    def __init__(self, overrides: Mapping[str, int], patience_s: float = PATIENCE_S) -> None:
        self.patience_s = patience_s
        self._limits = AddressLimits(MOST_CONNECTIONS, MOST_OF_AN_ADDRESS, overrides, creation_rate=0)
        self._rejected = LogThrottle()

    def __call__(self, **settings: Any) -> PageConnection:
        """Create a connection with the arguments that uvicorn passes."""
        return PageConnection(self, **settings)

    def admit(self, address: str, now_s: float) -> bool:
        """Count a new connection and return True. If it would exceed a limit, do not count it and return False.

        `address` is the client's address. Call `release` when a counted connection is closed.
        """
        problem = self._limits.add_or_reject(address, now_s * 1000)
        if problem is not None and (more := self._rejected.next_suffix(now_s)) is not None:
            logger.warning(
                "connection from %(client)s to the page was rejected: %(error)s%(detail)s",
                LogFields(client=address, error=problem, detail=more),
            )
        return problem is None

    def release(self, address: str) -> None:
        """Stop counting a connection that `admit` has counted."""
        self._limits.remove(address)


class PageConnection(H11Protocol):
    """One connection of a browser.

    While the page waits for the client, a deadline is set. At the deadline, the connection is closed.
    """

    def __init__(self, connections: PageConnections, **settings: Any) -> None:
        super().__init__(**settings)
        self._connections = connections
        self._address: str | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if not self._connections.admit(address, self.loop.time()):
            transport.abort()
            return
        self._address = address
        self._update_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline and stop counting the connection. Called by asyncio."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._address is not None:
            self._connections.release(self._address)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes, which may complete a request. Called by asyncio."""
        super().data_received(data)
        self._update_deadline()

    def on_response_complete(self) -> None:
        """Update the deadline, because the client may send its next request. Called by uvicorn after each response."""
        super().on_response_complete()
        self._update_deadline()

    def pause_writing(self) -> None:
        """Start the deadline, because the client does not read the response. Called by asyncio."""
        super().pause_writing()
        self._update_deadline()

    def resume_writing(self) -> None:
        """Update the deadline, because the client has resumed reading the response. Called by asyncio."""
        super().resume_writing()
        self._update_deadline()

    def _update_deadline(self) -> None:
        """Start the deadline when the page waits for the client, and cancel it otherwise."""
        is_waiting = self.flow.write_paused or self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if self.transport.is_closing() or not is_waiting:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._connections.patience_s, self.transport.abort)
