"""Creates the parts of a gateway and connects them: each part receives the parts that it uses."""

import asyncio
from collections.abc import Mapping

from kafka.protocol import admin as admin_messages
from kafka.protocol import metadata as metadata_messages
from kafka.protocol import sasl as sasl_messages
from kafka.protocol.consumer import LeaveGroupRequest

from sharegroup.config import NO_CELL, Config, GatewayConfig
from sharegroup.config.keys.advertised_listeners import AdvertisedListeners
from sharegroup.config.keys.cells import job_of_cell
from sharegroup.config.keys.connection_limits import connection_overrides
from sharegroup.config.keys.gateway import UpstreamIdentity
from sharegroup.gateway.client_identity.forwarded_logins import ForwardedLogins
from sharegroup.gateway.clients.accepting.address_limits import AddressLimits
from sharegroup.gateway.clients.accepting.connections import Connections
from sharegroup.gateway.clients.accepting.descriptors import limit_connections, raise_limit
from sharegroup.gateway.clients.accepting.ports import Ports
from sharegroup.gateway.clients.client_connection import ClientConnection
from sharegroup.gateway.clients.frame_budget import FrameBudget
from sharegroup.gateway.clients.logins.login import Logins, time_ms
from sharegroup.gateway.clients.logins.sasl_server import reject_sasl
from sharegroup.gateway.clients.quotas import Quotas, load_quotas
from sharegroup.gateway.clients.request_loop import Service
from sharegroup.gateway.clients.tls_connection import TlsConnection
from sharegroup.gateway.fleet.fleet import Fleet
from sharegroup.gateway.fleet.reachability import Reachability
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.groups.open_outcomes import OpenLeaves
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.handlers.admin import admin_routes
from sharegroup.gateway.handlers.api_versions import ApiVersions
from sharegroup.gateway.handlers.cluster import ClusterApis
from sharegroup.gateway.handlers.groups.leave_group import LeaveGroup
from sharegroup.gateway.handlers.metadata import Metadata
from sharegroup.gateway.handlers.passthrough_requests import PassthroughRequests
from sharegroup.gateway.handlers.share.heartbeat import ShareGroupHeartbeat
from sharegroup.gateway.handlers.share.share_fetch import ShareApis
from sharegroup.gateway.job_client.cell_channel import CellChannel
from sharegroup.gateway.job_client.cell_channels import CellChannels
from sharegroup.gateway.job_client.group_requests import GroupRequests
from sharegroup.gateway.job_client.job_channel import JobChannel
from sharegroup.gateway.job_client.row_appender import RowAppender
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.gateway.upstream.node_connections import NodeConnections
from sharegroup.gateway.wire.request import Route
from sharegroup.kafka_clients.client_settings import ClientSettings, python_properties
from sharegroup.kafka_clients.row_topics.row_channel import RowTopics
from sharegroup.monitoring.metrics.client_counts import ClientCounts
from sharegroup.protocol import messages as share_messages
from sharegroup.security import Security
from sharegroup.security.listener import listener_name


class GatewayParts:
    """All parts of one gateway, created but not started.

    Must be created on the event loop. The constructor raises InvalidConfigError if the configuration, or a file that it
    names, is not valid.
    """

    def __init__(self, config: Config) -> None:
        settings = python_properties(config.job.bootstrap_servers, config.job.kafka)
        self._config, self._security = config, Security.from_config(config.gateway, config.row_topics)
        self.cluster = UpstreamCluster(settings)
        advertised = AdvertisedListeners.parse(config.gateway.advertised_listeners)
        self.listeners = Listeners(config.gateway.advertised_host or config.gateway.listener_host, advertised)
        self.ports = Ports(config.gateway, self.cluster, self.listeners)
        job = _job_channel(config, settings, self.cluster)
        self.job: JobChannel = job
        #: {cell: channel to the cell's job}, for metrics. A cell is one of several jobs that run side by side. If no
        #: cells are configured, the only key is "".
        self.channels: Mapping[str, CellChannel] = job.cells
        self.reachability = Reachability()
        self.fleet = Fleet(job, self.listeners, self.reachability, listener_name(config.gateway))
        self.counts = ClientCounts()
        self._open_leaves = OpenLeaves()
        self._stored = StoredGroups(
            _tables_paths(config), config.cells.cell_of, config.job.delta_options, self._open_leaves
        )
        self.group_configs = GroupConfigs(config, self._stored)
        self._leases, self._identities = MemberLeases(), MemberIdentities(self.group_configs)
        self.share = ShareApis(
            config,
            self.group_configs,
            self.job,
            self.cluster,
            self.listeners,
            self._security,
            self._leases,
            self._identities,
            NodeConnections(self.cluster, settings) if config.gateway.reserves else None,
        )
        self._upstream_groups = UpstreamGroups(self.cluster, self._stored)
        self.pass_through = PassthroughRequests(self.cluster, settings, self._security, self._upstream_groups)
        delay_s = config.gateway.failed_authentication_delay_ms / 1000
        self.logins = Logins(self._security, delay_s, config.gateway.max_reauth_ms, time_ms, self._acting(settings))
        self.connections = Connections(
            _connection_limits(config.gateway), self.share.sessions.on_disconnect, self.counts
        )
        self.budget = FrameBudget(config.gateway.queued_max_request_bytes)
        self._service = Service(
            config.gateway,
            self._routes(),
            self.pass_through,
            self.logins,
            self.budget,
            _quotas(config.gateway),
            self.counts,
            {LeaveGroupRequest.API_KEY: (LeaveGroupRequest, LeaveGroup(GroupRequests(job), self._security))},
        )
        self.ports.set_protocol_factory(self._connection)

    def _routes(self) -> Mapping[int, Route]:
        """Return the APIs that the gateway handles itself: {api key: (request class, handler)}."""
        cluster = ClusterApis(self.cluster, self.listeners, self.ports.open_new, self._security, self.fleet.view_for)
        heartbeat = ShareGroupHeartbeat(
            self.job,
            self.cluster,
            self._security,
            self._leases,
            self._upstream_groups,
            self._identities,
            self.share.open_acknowledgements,
            self._open_leaves,
        )
        routes: list[Route] = [
            (sasl_messages.SaslHandshakeRequest, reject_sasl),
            (sasl_messages.SaslAuthenticateRequest, reject_sasl),
            (metadata_messages.ApiVersionsRequest, ApiVersions(self.cluster)),
            (metadata_messages.MetadataRequest, Metadata(cluster, self.cluster.snapshots, self._security)),
            (metadata_messages.FindCoordinatorRequest, cluster.find_coordinator),
            (admin_messages.DescribeClusterRequest, cluster.describe_cluster),
            (share_messages.ShareGroupHeartbeatRequest, heartbeat),
            (share_messages.ShareFetchRequest, self.share.fetch),
            (share_messages.ShareAcknowledgeRequest, self.share.acknowledge),
            *admin_routes(
                self._config,
                self.job,
                self.cluster,
                self._stored,
                self._upstream_groups,
                self.group_configs,
                self._security,
            ),
        ]
        return {message.API_KEY: (message, handler) for message, handler in routes}

    def _acting(self, settings: ClientSettings) -> ForwardedLogins | None:
        if self._config.gateway.upstream_identity is not UpstreamIdentity.CLIENT:
            return None
        return ForwardedLogins(self._config, settings, self.cluster, self._share_groups, time_ms)

    async def _share_groups(self) -> list[str]:
        return [listing.group_id for listing in await self._stored.listings()]

    def reload_security(self) -> None:
        """Reload certificates, users, keys and ACLs if their files have changed. Blocks the calling thread."""
        self._security.reload()

    def _connection(self, node_id: int, is_standby: bool) -> asyncio.BaseProtocol:
        client = ClientConnection(self._service, self.connections, node_id, is_standby)
        if self._security.tls is None:
            return client
        return TlsConnection(client, self._security.tls, self._config.gateway.first_request_timeout_ms / 1000)


def _connection_limits(config: GatewayConfig) -> AddressLimits:
    """Raise the process's limit of open files, and return the configured limits of connections.

    If the process still cannot open enough files, the total limit of connections is lower than configured.
    """
    return AddressLimits(
        limit_connections(raise_limit(), config.max_connections),
        config.max_connections_per_ip,
        connection_overrides(config.max_connections_per_ip_overrides),
        config.max_connection_creation_rate_per_ip,
    )


def _quotas(config: GatewayConfig) -> Quotas:
    """Return the configured quotas. Raises InvalidConfigError if the quota file is not valid."""
    return Quotas(
        load_quotas(config.quotas) if config.quotas else (),
        consumer_byte_rate=config.quota_consumer_byte_rate,
        request_rate=config.quota_request_rate,
    )


def _job_channel(config: Config, settings: ClientSettings, cluster: UpstreamCluster) -> CellChannel | CellChannels:
    """Return a channel to the job. If cells (several jobs side by side) are configured, it leads to all these jobs."""
    timeout_s = config.gateway.job_timeout_ms / 1000
    if not config.cells.names:
        return CellChannel(settings, RowTopics(*config.job.topics), timeout_s, cluster)
    appender = RowAppender(cluster, settings, timeout_s)
    channels = {
        cell: CellChannel(settings, RowTopics(*job_of_cell(config.job, cell).topics), timeout_s, cluster, appender)
        for cell in config.cells.names
    }
    return CellChannels(channels, config.cells.cell_of)


def _tables_paths(config: Config) -> dict[str, str]:
    cells = config.cells.names or (NO_CELL,)
    return {cell: job_of_cell(config.job, cell).tables_path for cell in cells}
