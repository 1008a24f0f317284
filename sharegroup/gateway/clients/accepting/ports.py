"""The gateway's ports.

There is one for each upstream broker, where clients find what they would find at that broker. The base port is a
bootstrap address. One more is for clients of other gateways that are lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from sharegroup.config import GatewayConfig
from sharegroup.gateway.clients.accepting.acceptor import Acceptor
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.listeners import Listeners

logger = logging.getLogger(__name__)

#: Connections that may wait to be accepted.
BACKLOG = 1_024
#: The port for clients of other gateways, from the base port on.
STANDBY_PLACE = -1
#: The base port itself: broker 0's, where there is one.
BOOTSTRAP_PLACE = 0
_LAST_PORT = 65_535


class Ports:
    """Opens the ports, and tells `listeners` of each that is open."""

    def __init__(self, config: GatewayConfig, cluster: UpstreamCluster, listeners: Listeners) -> None:
        self._config, self._cluster, self._listeners = config, cluster, listeners
        self._servers: list[Acceptor] = []
        self._bootstrap: Acceptor | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False
        self._connect: Callable[[int, bool], asyncio.BaseProtocol]

    def serve_with(self, connect: Callable[[int, bool], asyncio.BaseProtocol]) -> None:
        """Have `connect` make the connection of each client, given the broker whose port it came to, and whether it
        came as another gateway's client: then the broker is whichever is there."""
        self._connect = connect

    async def open(self) -> None:
        """Open a port for each broker, base port + its id, and those beside them: the same ones at every gateway.

        Raises OSError for a port that is taken, or that there cannot be.
        """
        async with self._opening:
            missing = self._listeners.missing(self._cluster.node_ids)
            if BOOTSTRAP_PLACE in missing and self._bootstrap is not None:
                self._bootstrap.close()
            for node_id in missing:
                self._listeners.add(node_id, await self._open(node_id, partial(self._connect, node_id, False)))
                logger.info("broker %d is served at %s:%d", node_id, *self._listeners.address(node_id))
            if self._bootstrap is None and self._config.listener_port and not self._listeners.has(BOOTSTRAP_PLACE):
                await self._open(BOOTSTRAP_PLACE, self._connect_bootstrap)
                self._bootstrap = self._servers[-1]
            if self._listeners.standby is None:
                self._listeners.add_standby(await self._open(STANDBY_PLACE, self._connect_standby))

    async def open_new(self) -> None:
        """For brokers that came while we serve; clients do not see one whose port cannot be had."""
        try:
            await self.open()
        except OSError as error:
            logger.warning("no port for a new upstream broker: %s", error)

    async def listen(self, node_id: int, port: int) -> Acceptor:
        """Serve an upstream broker on a port; 0: any free one. Raises OSError."""
        return await self._listen(partial(self._connect, node_id, False), port)

    def close(self) -> None:
        """Take no more clients; those that are connected stay."""
        self._is_closed = True
        for server in self._servers:
            server.close()

    async def _open(self, place: int, connect: Callable[[], asyncio.BaseProtocol]) -> int:
        """A port at this place from the base port on, which is returned."""
        base = self._config.listener_port
        port = base + place if base else 0
        if port > _LAST_PORT:
            raise OSError(f"there is no port {port}, which is gateway.listener.port + {place}")
        if self._is_closed:
            raise OSError("the gateway ends")
        try:
            server = await self._listen(connect, port)
        except OSError as error:
            raise OSError(error.errno, f"cannot open {_described(base, place)}: {error.strerror}") from error
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _listen(self, connect: Callable[[], asyncio.BaseProtocol], port: int) -> Acceptor:
        return await Acceptor.listen(connect, self._config.listener_host, port, BACKLOG)

    def _connect_bootstrap(self) -> asyncio.BaseProtocol:
        return self._connect(self._cluster.node_ids[0], False)

    def _connect_standby(self) -> asyncio.BaseProtocol:
        return self._connect(self._cluster.node_ids[0], True)


def _described(base: int, place: int) -> str:
    """A port as an operator knows it: by its number, its option and its purpose."""
    option = "gateway.listener.port (--port)"
    if not base:
        return f"a free port ({option} is 0)"
    if place == BOOTSTRAP_PLACE:
        return f"port {base}, {option}, which is the bootstrap address"
    purpose = "the standby port" if place == STANDBY_PLACE else f"the port of broker {place}"
    return f"port {base + place}, {option} {place:+d}, which is {purpose}"
