"""The ports on which the gateway listens.

The base port is `gateway.listener.port`. The other ports are computed from it:

- Each upstream broker has the port base port + broker id. A client that connects to this port is served as if it had
  connected to that broker.
- The base port itself is the bootstrap port. It is open even if no broker has the id 0.
- The standby port is the port below the base port, for clients whose own gateway has failed.

If `gateway.listener.port` is 0, the system chooses free ports for the brokers and the standby port. There is then no
separate bootstrap port.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from sharegroup.config import GatewayConfig
from sharegroup.gateway.clients.accepting.acceptor import Acceptor
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: Maximum number of connections per port that wait to be accepted.
BACKLOG = 1_024
#: Offset of the standby port from the base port.
STANDBY_OFFSET = -1
#: Offset of the bootstrap port, which is the base port itself. If there is a broker with id 0, this is also its port.
BOOTSTRAP_OFFSET = 0
_LAST_PORT = 65_535


class Ports:
    """The gateway's ports: one for each broker, the bootstrap port and the standby port.

    The ports of the brokers and the standby port are added to `listeners`, which contains the addresses that clients
    receive.
    """

    def __init__(self, config: GatewayConfig, cluster: UpstreamCluster, listeners: Listeners) -> None:
        self._config, self._cluster, self._listeners = config, cluster, listeners
        self._servers: list[Acceptor] = []
        self._bootstrap: Acceptor | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False
        self._connect: Callable[[int, bool], asyncio.BaseProtocol]

    def set_protocol_factory(self, connect: Callable[[int, bool], asyncio.BaseProtocol]) -> None:
        """Set `connect`, which creates the asyncio protocol of each client.

        Its arguments are the id of the broker whose port the client used, and whether the client used the standby port.
        For the standby and bootstrap ports, the id is that of the first known broker.
        """
        self._connect = connect

    async def open(self) -> None:
        """Open the ports that are not open yet: one for each broker, the bootstrap port and the standby port.

        If broker 0 has joined the cluster, its port replaces the bootstrap port, which has the same number. Raises
        OSError if a port is in use or out of range, or if the gateway is shutting down.
        """
        async with self._opening:
            missing = self._listeners.without_port(self._cluster.node_ids)
            if BOOTSTRAP_OFFSET in missing and self._bootstrap is not None:
                self._bootstrap.close()
            for node_id in missing:
                self._listeners.add(node_id, await self._open(node_id, partial(self._connect, node_id, False)))
                host, port = self._listeners.get_address(node_id)
                logger.info(
                    "serving broker %(broker)d at %(gateway)s", LogFields(broker=node_id, gateway=f"{host}:{port}")
                )
            if (
                self._bootstrap is None
                and self._config.listener_port
                and not self._listeners.has_port(BOOTSTRAP_OFFSET)
            ):
                await self._open(BOOTSTRAP_OFFSET, self._connect_bootstrap)
                self._bootstrap = self._servers[-1]
            if self._listeners.standby is None:
                self._listeners.add_standby(await self._open(STANDBY_OFFSET, self._connect_standby))

    async def open_new(self) -> None:
        """Open ports for brokers that have joined the cluster since the start.

        If a port cannot be opened, an error is logged, and the broker is left out of Metadata responses.
        """
        try:
            await self.open()
        except OSError as error:
            logger.error(
                "cannot open a port for a new upstream broker, so Metadata responses leave the broker out: %(error)s",
                LogFields(error=error),
            )

    async def listen(self, node_id: int, port: int) -> Acceptor:
        """Open an additional port for an upstream broker and return its acceptor, which the caller must close.

        `port` 0 means any free port. Raises OSError if the port cannot be opened.
        """
        return await self._listen(partial(self._connect, node_id, False), port)

    def close(self) -> None:
        """Stop accepting clients. Existing connections stay open."""
        self._is_closed = True
        for server in self._servers:
            server.close()

    async def _open(self, place: int, connect: Callable[[], asyncio.BaseProtocol]) -> int:
        """Open the port at offset `place` from the base port, or any free port if the base port is 0.

        Return its number. Raises OSError if the port is in use or out of range, or after `close` has been called.
        """
        base = self._config.listener_port
        port = base + place if base else 0
        if port > _LAST_PORT:
            raise OSError(f"port {port} (gateway.listener.port + {place}) is above {_LAST_PORT}")
        if self._is_closed:
            raise OSError("the gateway is shutting down")
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
    """Return a description of the port at offset `place` from the base port: its number, config option and purpose."""
    option = "gateway.listener.port (--port)"
    if not base:
        return f"a free port ({option} is 0)"
    if place == BOOTSTRAP_OFFSET:
        return f"port {base}, {option}, which is the bootstrap address"
    purpose = "the standby port" if place == STANDBY_OFFSET else f"the port of broker {place}"
    return f"port {base + place}, {option} {place:+d}, which is {purpose}"
