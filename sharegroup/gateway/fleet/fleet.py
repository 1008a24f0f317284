"""The gateways of a cluster: announces this gateway to the others, and decides which addresses its clients receive.

The gateways form a ring (`known_gateways`). A client of this gateway receives this gateway's addresses, and the standby
port of the next gateway in the ring as one more broker. If this gateway fails, that standby port is the only broker
that the client can still reach. The client requests metadata there, and the next gateway responds with its own
addresses.

While this gateway is alive, the standby port of the next gateway responds with this gateway's addresses. The reason is
that a client may request metadata from any broker that it knows. If the standby port responded with other addresses, a
client could use its group's coordinator at one gateway and its partitions at another.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from sharegroup.gateway.fleet.client_view import ClientView, standby_for
from sharegroup.gateway.fleet.known_gateways import KnownGateways, next_gateway, previous_gateway
from sharegroup.gateway.job_client.row_appender import JobUnavailableError
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.log_fields import LogFields
from sharegroup.protocol.rows.gateway_rows import GatewayAddress, GatewayRow
from sharegroup.security.caller import Caller

logger = logging.getLogger(__name__)

#: A gateway announces itself every `ANNOUNCE_S` seconds. It counts as failed `LIVES_MS` after its last announcement.
#: Clients of a failed gateway detect the failure sooner.
ANNOUNCE_S, LIVES_MS = 5.0, 20_000
#: After another gateway has stopped or failed, its clients may move to this gateway for this long (in ms).
MOVE_MS = 60_000
#: How long a stopping gateway waits for the append of its last row, in seconds.
_LAST_ROW_S = 2.0


class GatewayRows(Protocol):
    """The methods of the job channel that the fleet uses. Gateways append their rows to the jobs' response topics."""

    def announce(self, row: GatewayRow) -> Sequence[asyncio.Future[int]]:
        """Append a row of this gateway to each response topic. Return the futures of the appends.

        Raises JobUnavailableError if an append fails at once. If it fails later, its future raises the error.
        """

    def on_gateway(self, callback: Callable[[GatewayRow, int], None]) -> None:
        """Register `callback(row, append time in ms)`. It is called for the rows of all gateways including this one."""

    def now_ms(self) -> int:
        """Return the brokers' time, in milliseconds since the epoch."""


class Fleet:
    """The gateways that this gateway knows. Announces this gateway to them, and chooses the addresses for its clients.

    `listeners` are this gateway's addresses. `is_reachable` returns whether another gateway accepts connections. `name`
    is the name of this gateway's listener. Gateways with another listener name are ignored, because this gateway's
    clients may be unable to reach them or to use their security protocol.
    """

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
        #: When another gateway last stopped or failed, in ms of the brokers' time.
        self._lost_ms = -MOVE_MS
        self._must_stay: Callable[[int], bool] = lambda _: True
        rows.on_gateway(self._on_row)

    # -- announcements -------------------------------------------------------------------------------------------------

    def upkeep(self) -> None:
        """Announce this gateway to the others if the next announcement is due.

        Do nothing while appends of the previous announcement are open, or after `leave` has been called.
        """
        is_due = self._loop.time() - self._announced_s >= ANNOUNCE_S
        if self._is_leaving or not is_due or any(not sent.done() for sent in self._announcing):
            return
        try:
            self._announce(LIVES_MS)
        except JobUnavailableError as error:
            logger.debug("failed to announce this gateway: %(error)s; retrying", LogFields(error=error))

    async def leave(self, stays: Callable[[int], bool]) -> None:
        """Announce that this gateway stops. From now on, clients receive the next gateway's addresses.

        If `stays` returns True for a client's connection id, the client still receives this gateway's addresses. The
        reason is that librdkafka closes a connection when the broker's address changes. It would then lose the
        acknowledgements that it has not sent yet.
        """
        self._is_leaving, self._must_stay = True, stays
        try:
            self._announce(0)
        except JobUnavailableError as error:
            logger.warning("failed to announce that this gateway stops: %(error)s", LogFields(error=error))
            return
        if self._announcing:
            await asyncio.wait(self._announcing, timeout=_LAST_ROW_S)

    def _announce(self, lives_ms: int) -> None:
        own = self._own()
        if own is None:
            return
        self._announcing = self._rows.announce(replace(own, lives_ms=lives_ms))
        self._announced_s = self._loop.time()

    def _on_row(self, row: GatewayRow, append_ms: int) -> None:
        if row.standby == self._listeners.standby or row.listener != self._name:
            return
        now_ms = self._rows.now_ms()
        if self._known.apply_row(row, append_ms, now_ms):
            host, port = row.standby
            state = "stops" if not row.lives_ms else "is available"
            if not row.lives_ms:
                self._lost_ms = now_ms
            logger.info("gateway %(gateway)s %(detail)s", LogFields(gateway=f"{host}:{port}", detail=state))
            self._announced_s = float("-inf")  # a new gateway does not know this one yet

    # -- addresses for clients -----------------------------------------------------------------------------------------

    async def view_for(self, caller: Caller) -> ClientView:
        """Return the broker addresses for a client.

        Clients that use the standby port receive the previous gateway's addresses while it is reachable. After `leave`,
        clients that need not stay receive the next gateway's addresses. All others receive this gateway's addresses.

        If the client should move to another gateway, the result contains a standby port that the client has received
        before or is connected to. Without this port, all returned addresses would be new to the client. If librdkafka
        then reached none of them, it would reconnect to its bootstrap servers.
        """
        own = self._own()
        if own is None:
            return ClientView(self._listeners.addresses)
        if caller.is_standby:
            gateway = await self._neighbour(previous_gateway, own) or own
            return ClientView(gateway.brokers, standby_for(own.standby), may_have_moved=gateway is own)
        if self._must_stay(caller.connection_id):
            following = next_gateway(self._living(), own.standby)
            standby = None if following is None else standby_for(following)
            return ClientView(own.brokers, standby, self._rows.now_ms() < self._lost_ms + MOVE_MS)
        gateway = await self._neighbour(next_gateway, own) or own
        return ClientView(gateway.brokers, None if gateway is own else standby_for(gateway.standby))

    async def _neighbour(
        self, next_to: Callable[[Iterable[GatewayAddress], GatewayAddress], GatewayAddress | None], own: GatewayRow
    ) -> GatewayRow | None:
        """Return the nearest reachable gateway in one direction of the ring of gateways; None if there is none.

        `next_to` is `next_gateway` or `previous_gateway`. Unreachable gateways are marked as lost.
        """
        while (place := next_to(living := self._living(), own.standby)) is not None:
            if await self._is_reachable(place):
                return living[place]
            self._lost_ms = self._rows.now_ms()
            self._known.mark_lost(place, self._lost_ms)
        return None

    def _living(self) -> dict[GatewayAddress, GatewayRow]:
        return self._known.living(self._rows.now_ms())

    def _own(self) -> GatewayRow | None:
        """Return the row that announces this gateway; None before its ports are open."""
        if self._listeners.standby is None:
            return None
        brokers = {node_id: GatewayAddress(*address) for node_id, address in self._listeners.addresses.items()}
        return GatewayRow(GatewayAddress(*self._listeners.standby), brokers, listener=self._name)
