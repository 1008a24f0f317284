"""The gateway as a whole: listeners, one for each upstream broker, and which handler answers which API."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kafka.protocol import admin as admin_messages
from kafka.protocol import metadata as metadata_messages
from kafka.protocol import sasl as sasl_messages
from kafka.protocol.api_message import ApiMessage

from sharegroup.config import Config, GatewayConfig
from sharegroup.gateway.clients.client_connection import ClientConnection
from sharegroup.gateway.clients.tls_connection import TlsConnection
from sharegroup.gateway.groups.group_configs import REFRESH_INTERVAL_S as CONFIGS_INTERVAL_S
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.handlers.admin import admin_routes
from sharegroup.gateway.handlers.api_versions import ApiVersions, passed_through
from sharegroup.gateway.handlers.cluster import ClusterApis
from sharegroup.gateway.handlers.heartbeat import ShareGroupHeartbeat
from sharegroup.gateway.handlers.share_fetch import ShareApis
from sharegroup.gateway.job_client.job_channel import JobChannel
from sharegroup.gateway.security import Security
from sharegroup.gateway.security.sasl_server import sasl_is_off
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.kept_connection import ConnectBackoff
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.gateway.upstream.passthrough import Passthrough
from sharegroup.gateway.wire.headers import RequestHeader, UnknownVersionError
from sharegroup.gateway.wire.request import Request, Route
from sharegroup.protocol import messages as share_messages
from sharegroup.topics.client_settings import python_properties
from sharegroup.topics.row_channel import RowTopics

logger = logging.getLogger(__name__)

T = TypeVar("T")
U = TypeVar("U")

UPKEEP_INTERVAL_S, IDLE_CHECK_INTERVAL_S, REFRESH_INTERVAL_S = 0.1, 1.0, 30.0
#: After a DeleteTopics: by then all brokers should know of it.
LOOK_AGAIN_S = 1.0
#: Connections that may wait to be accepted.
BACKLOG = 1_024
#: Passwords that are checked at the same time; the other logins wait, and nobody else with them.
LOGIN_THREADS = 2


class Gateway:
    """`start` opens the ports, `stop` closes them; between the two it serves. One event loop, no thread of its own."""

    def __init__(self, config: Config) -> None:
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
        self._job = JobChannel(settings, topics, self.config.job_timeout_ms / 1000, self._cluster)
        self._stored = StoredGroups(config.job.tables_path)
        self._group_configs = GroupConfigs(config, self._stored)
        self._leases = MemberLeases()
        self._share = ShareApis(
            config, self._group_configs, self._job, self._cluster, self._listeners, self.security, self._leases
        )
        self._handlers = self._routes()
        self.messages: Mapping[int, type[ApiMessage]] = {
            api_key: message for api_key, (message, _) in self._handlers.items()
        }
        self._servers: dict[int, asyncio.Server] = {}
        self._connections: set[ClientConnection] = set()
        self._connection_ids = itertools.count(1)
        self._opening = asyncio.Lock()
        self._backoffs: defaultdict[int, ConnectBackoff] = defaultdict(ConnectBackoff)
        self._logins = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="login")
        self._tasks: list[asyncio.Task[None]] = []
        self._looking: asyncio.Task[None] | None = None

    def _routes(self) -> dict[int, Route]:
        """{api key: (request message, handler)}"""
        cluster = ClusterApis(self._cluster, self._listeners, self._open_new_ports, self.security)
        upstream_groups = UpstreamGroups(self._cluster, self._stored)
        heartbeat = ShareGroupHeartbeat(self._job, self._cluster, self.security, self._leases, upstream_groups)
        routes: list[Route] = [
            (sasl_messages.SaslHandshakeRequest, sasl_is_off),
            (sasl_messages.SaslAuthenticateRequest, sasl_is_off),
            (metadata_messages.ApiVersionsRequest, ApiVersions(self._cluster, self.security)),
            (metadata_messages.MetadataRequest, cluster.metadata),
            (metadata_messages.FindCoordinatorRequest, cluster.find_coordinator),
            (admin_messages.DescribeClusterRequest, cluster.describe_cluster),
            (share_messages.ShareGroupHeartbeatRequest, heartbeat),
            (share_messages.ShareFetchRequest, self._share.fetch),
            (share_messages.ShareAcknowledgeRequest, self._share.acknowledge),
            *admin_routes(self._job_config, self._job, self._cluster, self._stored, self._group_configs, self.security),
        ]
        return {message.API_KEY: (message, handler) for message, handler in routes}

    # -- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the upstream cluster and open the ports. Raises UpstreamUnavailableError or OSError."""
        self._job.start()
        await self._cluster.refresh()
        await self._group_configs.refresh()  # before the first fetch: a group may be a read_committed one
        await self._open_ports()
        upkeep = {
            UPKEEP_INTERVAL_S: self._share.sessions.upkeep,
            IDLE_CHECK_INTERVAL_S: self.close_idle,
            CONFIGS_INTERVAL_S: self._group_configs.upkeep,
            REFRESH_INTERVAL_S: self._refresh,
        }
        self._tasks = [asyncio.ensure_future(_each(interval_s, work)) for interval_s, work in upkeep.items()]

    async def stop(self) -> None:
        """Close the ports, give back what members hold, and end."""
        for task in (*self._tasks, *([] if self._looking is None else [self._looking])):
            task.cancel()
        for server in self._servers.values():
            server.close()
        self._share.sessions.close()  # gives back what members hold, before their connections end
        for connection in list(self._connections):
            connection.close()
        await self._job.close()
        self._cluster.close()
        self._logins.shutdown(wait=False, cancel_futures=True)

    @property
    def host(self) -> str:
        """The advertised host."""
        return self._listeners.host

    @property
    def ports(self) -> dict[int, int]:
        """{upstream broker: port}"""
        return {node_id: self._listeners.port(node_id) for node_id in self._listeners.node_ids}

    async def _open_ports(self) -> None:
        """A port for each broker: base port + its place among the broker ids, new brokers after the others.

        Raises OSError for a port that is taken.
        """
        async with self._opening:
            for node_id in self._listeners.missing(self._cluster.node_ids):
                base = self.config.listener_port
                server = await self.listen(node_id, base + len(self._servers) if base else 0)
                self._servers[node_id] = server
                self._listeners.add(node_id, server.sockets[0].getsockname()[1])
                logger.info("broker %d is served on port %d", node_id, self._listeners.port(node_id))

    async def _open_new_ports(self) -> None:
        """For brokers that came while we serve; clients do not see one whose port cannot be had."""
        try:
            await self._open_ports()
        except OSError as error:
            logger.warning("no port for a new upstream broker: %s", error)

    async def listen(self, node_id: int, port: int) -> asyncio.Server:
        """Serve an upstream broker on a port; 0: any free one. Raises OSError."""
        return await asyncio.get_running_loop().create_server(
            lambda: self._connection(node_id), self.config.listener_host, port, backlog=BACKLOG
        )

    def _connection(self, node_id: int) -> ClientConnection | TlsConnection:
        client = ClientConnection(self, node_id, next(self._connection_ids))
        if self.security.tls is None:
            return client
        return TlsConnection(client, self.security.tls, self.config.first_request_timeout_ms / 1000)

    # -- for the connections -------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The loop's clock, in seconds."""
        return asyncio.get_running_loop().time()

    @property
    def connection_count(self) -> int:
        """Clients that are connected, those in their TLS handshake included."""
        return len(self._connections)

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
        self._share.sessions.disconnected(connection_id)

    async def check_offered(self, node_id: int, header: RequestHeader) -> None:
        """Raises UnknownVersionError for what the upstream broker does not have, or clients are not to use of it."""
        offered = passed_through(await self._cluster.features(node_id))
        low, high = offered.get(header.api_key, (0, -1))
        if not low <= header.api_version <= high:
            raise UnknownVersionError(f"request {header.api_key} of version {header.api_version} is not offered")

    def passthrough(self, node_id: int) -> Passthrough:
        """A link for one client."""
        address, backoff = self._cluster.address(node_id), self._backoffs[node_id]
        return Passthrough(address, self._settings, backoff, self._topics_deleted)

    def _topics_deleted(self) -> None:
        """A DeleteTopics has passed through: fetches that wait for such a topic should end."""
        self._cluster.doubt()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look_again())

    async def _look_again(self) -> None:
        """At once, and once more when all brokers know what one has said."""
        await self._cluster.try_refresh()
        await asyncio.sleep(LOOK_AGAIN_S)
        await self._cluster.try_refresh()

    async def run_login(self, step: Callable[[T], U], said: T) -> U:
        """A step of a login, in a thread of its own."""
        return await asyncio.get_running_loop().run_in_executor(self._logins, step, said)

    async def handle(self, request: Request[ApiMessage]) -> ApiMessage:
        """The response message to one of our own requests."""
        _, handler = self._handlers[request.header.api_key]
        return await handler(request)

    # -- upkeep --------------------------------------------------------------------------------------------------------

    def close_idle(self) -> None:
        """Disconnect the clients that have been silent for too long."""
        now = self.now()
        for connection in [connection for connection in self._connections if connection.is_idle(now)]:
            connection.close()

    async def _refresh(self) -> None:
        """Learn of new topics, partitions, leaders and brokers."""
        if await self._cluster.try_refresh():
            await self._open_new_ports()


async def _each(interval_s: float, work: Callable[[], Awaitable[None] | None]) -> None:
    """Do it for ever, whatever goes wrong."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            done = work()
            if done is not None:
                await done
        except Exception:
            logger.exception("the gateway's upkeep failed, will try again")


@contextlib.asynccontextmanager
async def running_gateway(config: Config) -> AsyncIterator[Gateway]:
    """A started gateway, stopped at the end. Raises UpstreamUnavailableError or OSError."""
    gateway = Gateway(config)
    try:
        await gateway.start()
        yield gateway
    finally:
        await gateway.stop()
