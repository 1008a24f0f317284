"""The gateway's ports: one for each upstream broker, where clients find what they would find at that broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from sharegroup.config import GatewayConfig
from sharegroup.gateway.clients.acceptor import Acceptor
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.listeners import Listeners

logger = logging.getLogger(__name__)

#: Connections that may wait to be accepted.
BACKLOG = 1_024


class Ports:
    """Opens the ports, and tells `listeners` of each that is open."""

    def __init__(self, config: GatewayConfig, cluster: UpstreamCluster, listeners: Listeners) -> None:
        self._config, self._cluster, self._listeners = config, cluster, listeners
        self._servers: dict[int, Acceptor] = {}
        self._opening = asyncio.Lock()
        self._connect: Callable[[int], asyncio.BaseProtocol]

    def serve_with(self, connect: Callable[[int], asyncio.BaseProtocol]) -> None:
        """Have `connect` make the connection of each client, given the broker whose port it came to."""
        self._connect = connect

    async def open(self) -> None:
        """A port for each broker: base port + its place among the broker ids, new brokers after the others.

        Raises OSError for a port that is taken.
        """
        async with self._opening:
            for node_id in self._listeners.missing(self._cluster.node_ids):
                base = self._config.listener_port
                server = await self.listen(node_id, base + len(self._servers) if base else 0)
                self._servers[node_id] = server
                self._listeners.add(node_id, server.sockets[0].getsockname()[1])
                logger.info("broker %d is served on port %d", node_id, self._listeners.port(node_id))

    async def open_new(self) -> None:
        """For brokers that came while we serve; clients do not see one whose port cannot be had."""
        try:
            await self.open()
        except OSError as error:
            logger.warning("no port for a new upstream broker: %s", error)

    async def listen(self, node_id: int, port: int) -> Acceptor:
        """Serve an upstream broker on a port; 0: any free one. Raises OSError."""
        return await Acceptor.listen(lambda: self._connect(node_id), self._config.listener_host, port, BACKLOG)

    def close(self) -> None:
        """Take no more clients; those that are connected stay."""
        for server in self._servers.values():
            server.close()
