"""The gateway as a whole: listeners, one for each upstream broker, and which handler answers which API."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import ssl
from typing import Any

from kafka.protocol import admin as admin_messages
from kafka.protocol import metadata as metadata_messages

from sharegroup.channel.client_settings import python_properties
from sharegroup.channel.row_channel import RowTopics
from sharegroup.config import GatewayConfig, JobConfig
from sharegroup.gateway.client_connection import ClientConnection
from sharegroup.gateway.engine_channel import EngineChannel
from sharegroup.gateway.handlers.api_versions import API_VERSIONS, HIDDEN, ApiVersions
from sharegroup.gateway.handlers.cluster import ClusterApis
from sharegroup.gateway.handlers.heartbeat import ShareGroupHeartbeat
from sharegroup.gateway.handlers.share_fetch import ShareApis
from sharegroup.gateway.listeners import Listeners
from sharegroup.gateway.passthrough import Passthrough
from sharegroup.gateway.request import Handler, Request
from sharegroup.gateway.security import Security
from sharegroup.gateway.upstream_cluster import UpstreamCluster
from sharegroup.gateway.upstream_connection import UpstreamUnavailableError
from sharegroup.protocol import messages as share_messages

logger = logging.getLogger(__name__)

UPKEEP_INTERVAL_S = 0.1
REFRESH_INTERVAL_S = 30.0
#: Highest API key that a broker could know and that is passed through when it comes.
BACKLOG = 1_024


class Gateway:
    """`start` opens the ports, `stop` closes them; between the two it serves. One event loop, no thread of its own."""

    def __init__(self, config: JobConfig) -> None:
        self._job_config = config
        self.config: GatewayConfig = config.gateway
        settings = python_properties(config.job.bootstrap_servers, config.job.kafka)
        self._settings = settings
        self.security = Security.of(self.config)
        self._cluster = UpstreamCluster(settings)
        self._listeners = Listeners(self.config.advertised_host or self.config.listener_host)
        topics = RowTopics(
            config.job.group_requests_topic, config.job.partition_requests_topic, config.job.responses_topic
        )
        self._engine = EngineChannel(settings, topics, self.config.engine_timeout_ms / 1000)
        self._share = ShareApis(config, self._engine, self._cluster, self._listeners, self.security)
        self._handlers = self._routes()
        self.messages = {api_key: message for api_key, (message, _) in self._handlers.items()}
        self._servers: dict[int, asyncio.Server] = {}
        self._connections: set[ClientConnection] = set()
        self._connection_ids = itertools.count(1)
        self._opening = asyncio.Lock()
        self._tls: ssl.SSLContext | None = self.security.tls
        self._tasks: list[asyncio.Task[None]] = []

    def _routes(self) -> dict[int, tuple[Any, Handler]]:
        """{api key: (request message, handler)}"""
        cluster = ClusterApis(self._cluster, self._listeners, self._open_ports)
        heartbeat = ShareGroupHeartbeat(self._engine, self._cluster, self.security)
        routes: list[tuple[Any, Handler]] = [
            (metadata_messages.ApiVersionsRequest, ApiVersions(self._cluster)),
            (metadata_messages.MetadataRequest, cluster.metadata),
            (metadata_messages.FindCoordinatorRequest, cluster.find_coordinator),
            (admin_messages.DescribeClusterRequest, cluster.describe_cluster),
            (share_messages.ShareGroupHeartbeatRequest, heartbeat),
            (share_messages.ShareFetchRequest, self._share.fetch),
            (share_messages.ShareAcknowledgeRequest, self._share.acknowledge),
        ]
        return {message.API_KEY: (message, handler) for message, handler in routes}

    # -- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the upstream cluster and open the ports. Raises UpstreamUnavailableError or OSError."""
        self._engine.start()
        await self._cluster.refresh()
        await self._open_ports()
        self._tasks = [asyncio.ensure_future(self._upkeep()), asyncio.ensure_future(self._refresh())]

    async def stop(self) -> None:
        """Close the ports, give back what members hold, and end."""
        for task in self._tasks:
            task.cancel()
        for server in self._servers.values():
            server.close()
        self._share.close()  # gives back what members hold, before their connections end
        for connection in list(self._connections):
            connection.close()
        await self._engine.close()
        self._cluster.close()

    @property
    def host(self) -> str:
        """The advertised host."""
        return self._listeners.host

    @property
    def ports(self) -> dict[int, int]:
        """{upstream broker: port}"""
        return {node_id: self._listeners.port(node_id) for node_id in self._listeners.node_ids}

    async def _open_ports(self) -> None:
        """A port for each broker: base port + its place among the broker ids, new brokers after the others."""
        async with self._opening:
            loop = asyncio.get_running_loop()
            for node_id in self._listeners.missing(self._cluster.node_ids):
                base = self.config.listener_port
                port = base + len(self._servers) if base else 0
                server = await loop.create_server(
                    lambda node_id=node_id: self._connection(node_id),
                    self.config.listener_host,
                    port,
                    ssl=self._tls,
                    backlog=BACKLOG,
                )
                self._servers[node_id] = server
                self._listeners.add(node_id, server.sockets[0].getsockname()[1])
                logger.info("broker %d is served on port %d", node_id, self._listeners.port(node_id))

    def _connection(self, node_id: int) -> ClientConnection:
        return ClientConnection(self, node_id, next(self._connection_ids))

    # -- for the connections -------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The loop's clock, in seconds."""
        return asyncio.get_running_loop().time()

    def connected(self, connection: ClientConnection) -> bool:
        """Take a connection in; False when there are too many."""
        if len(self._connections) >= self.config.max_connections:
            logger.warning("more than %d connections: one is refused", self.config.max_connections)
            return False
        self._connections.add(connection)
        return True

    def disconnected(self, connection: ClientConnection, connection_id: int) -> None:
        """The client is gone."""
        self._connections.discard(connection)
        self._share.disconnected(connection_id)

    def passes_through(self, api_key: int) -> bool:
        """Whether requests of this API go to the upstream broker."""
        return api_key >= 0 and api_key not in HIDDEN and api_key != API_VERSIONS

    def passthrough(self, node_id: int) -> Passthrough:
        """A link for one client."""
        return Passthrough(self._cluster.address(node_id), self._settings)

    async def handle(self, request: Request) -> Any:
        """The response message to one of our own requests."""
        _, handler = self._handlers[request.header.api_key]
        return await handler(request)

    # -- upkeep --------------------------------------------------------------------------------------------------------

    async def _upkeep(self) -> None:
        """Give back what was acquired ahead and is not wanted; close silent connections."""
        while True:
            await asyncio.sleep(UPKEEP_INTERVAL_S)
            self._share.upkeep()
            now = self.now()
            for connection in [c for c in self._connections if c.is_idle(now)]:
                connection.close()

    async def _refresh(self) -> None:
        """Learn of new topics, partitions, leaders and brokers."""
        while True:
            await asyncio.sleep(REFRESH_INTERVAL_S)
            try:
                await self._cluster.refresh()
                await self._open_ports()
            except (UpstreamUnavailableError, OSError) as error:
                logger.warning("the upstream cluster's metadata cannot be read, will try again: %s", error)


@contextlib.asynccontextmanager
async def running_gateway(config: JobConfig) -> Any:
    """A started gateway, stopped at the end."""
    gateway = Gateway(config)
    try:
        await gateway.start()
        yield gateway
    finally:
        await gateway.stop()
