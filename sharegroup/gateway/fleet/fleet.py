"""This gateway among the others: it says that it is there, hears who else is, and knows whose addresses clients get.

A client of this gateway is told its addresses, and the next gateway's standby port as one more broker. When this
gateway dies, that is the one broker which the client still reaches: it asks there where everything is. The next gateway
then answers with its own addresses. While this gateway lives it answers with this one's: a client may ask any broker
that it knows, and is not to have its group's coordinator at one gateway and its partitions at another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from sharegroup.gateway.fleet.known_gateways import KnownGateways
from sharegroup.gateway.fleet.ring import after, before
from sharegroup.gateway.fleet.view import View, standby_at
from sharegroup.gateway.job_client.row_appender import JobUnavailableError
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.protocol.rows.gateway_rows import GatewayAddress, GatewayRow
from sharegroup.security.caller import Caller

logger = logging.getLogger(__name__)

#: A gateway says so often that it is there, and is gone when it has not for `LIVES_MS`; clients find out sooner.
ANNOUNCE_S, LIVES_MS = 5.0, 20_000
#: How long the row may take that says that a gateway ends.
_LAST_ROW_S = 2.0


class GatewayRows(Protocol):
    """What the fleet needs of the line to the jobs, whose topics the rows are in."""

    def announce(self, row: GatewayRow) -> Sequence[asyncio.Future[int]]:
        """Append a row. Raises JobUnavailableError, now or later."""

    def on_gateway(self, callback: Callable[[GatewayRow, int], None]) -> None:
        """Have `callback` given each row, our own too, and when it was appended (ms)."""

    def now_ms(self) -> int:
        """The brokers' time, in milliseconds since the epoch."""


class Fleet:
    """`listeners` are this gateway's addresses; `is_reachable` says whether another one takes connections. Gateways
    with a listener of another `name` are another fleet's: a client may not reach them, or not speak as they do."""

    def __init__(
        self,
        rows: GatewayRows,
        listeners: Listeners,
        is_reachable: Callable[[GatewayAddress], Awaitable[bool]],
        name: str = "",
    ) -> None:
        self._rows, self._listeners, self._name = rows, listeners, name
        self._is_reachable = is_reachable
        self._known = KnownGateways()
        self._loop = asyncio.get_running_loop()
        self._announced_s = float("-inf")
        self._announcing: Sequence[asyncio.Future[int]] = ()
        self._is_leaving = False
        self._stays: Callable[[int], bool] = lambda _: True
        rows.on_gateway(self._heard)

    # -- who is there --------------------------------------------------------------------------------------------------

    def upkeep(self) -> None:
        """Announce this gateway, if it is time, and if the last row is not on its way still."""
        is_due = self._loop.time() - self._announced_s >= ANNOUNCE_S
        if self._is_leaving or not is_due or any(not sent.done() for sent in self._announcing):
            return
        try:
            self._announce(LIVES_MS)
        except JobUnavailableError as error:
            logger.debug("this gateway is not announced: %s", error)

    async def leave(self, stays: Callable[[int], bool]) -> None:
        """Tell the others that this gateway ends; from now on its clients are told the next one's addresses.

        Not so a client whose connection `stays` (by its id): librdkafka leaves a connection when the broker's address
        is another, and would leave what it has to acknowledge there.
        """
        self._is_leaving, self._stays = True, stays
        try:
            self._announce(0)
        except JobUnavailableError as error:
            logger.warning("the other gateways are not told that this one ends: %s", error)
            return
        if self._announcing:
            await asyncio.wait(self._announcing, timeout=_LAST_ROW_S)

    def _announce(self, lives_ms: int) -> None:
        own = self._own()
        if own is None:
            return
        self._announcing = self._rows.announce(replace(own, lives_ms=lives_ms))
        self._announced_s = self._loop.time()

    def _heard(self, row: GatewayRow, append_ms: int) -> None:
        if row.standby == self._listeners.standby or row.listener != self._name:
            return
        now_ms = self._rows.now_ms()
        if self._known.heard(row, append_ms, now_ms):
            logger.info("gateway %s:%d %s", *row.standby, "ends" if not row.lives_ms else "is there")
            self._announced_s = float("-inf")  # who is new does not know this one yet

    # -- what clients are told -----------------------------------------------------------------------------------------

    async def view_of(self, caller: Caller) -> View:
        """The addresses that this client is to use.

        One that is sent to another gateway is told the standby port that it knows already, or has come by: librdkafka
        begins with its bootstrap servers when none of the brokers that it is told is one that it can still reach.
        """
        own = self._own()
        if own is None:
            return View(self._listeners.addresses)
        if caller.is_standby:
            gateway = await self._neighbour(before, own) or own
            return View(gateway.brokers, standby_at(own.standby))
        if self._stays(caller.connection_id):
            following = after(self._living(), own.standby)
            return View(own.brokers, None if following is None else standby_at(following))
        gateway = await self._neighbour(after, own) or own
        return View(gateway.brokers, None if gateway is own else standby_at(gateway.standby))

    async def _neighbour(
        self, next_to: Callable[[Iterable[GatewayAddress], GatewayAddress], GatewayAddress | None], own: GatewayRow
    ) -> GatewayRow | None:
        """The nearest gateway on that side of ours that takes connections; those that do not are lost."""
        while (place := next_to(living := self._living(), own.standby)) is not None:
            if await self._is_reachable(place):
                return living[place]
            self._known.lost(place, self._rows.now_ms())
        return None

    def _living(self) -> dict[GatewayAddress, GatewayRow]:
        return self._known.living(self._rows.now_ms())

    def _own(self) -> GatewayRow | None:
        """This gateway as the others hear of it; None before its ports are open."""
        if self._listeners.standby is None:
            return None
        brokers = {node_id: GatewayAddress(*address) for node_id, address in self._listeners.addresses.items()}
        return GatewayRow(GatewayAddress(*self._listeners.standby), brokers, listener=self._name)
