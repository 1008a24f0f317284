"""A share consumer's view of the Kafka cluster: connections, partition leaders, and the group's coordinator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from sharegroup.client.connector import Connection, Connector, UpstreamUnavailableError
from sharegroup.client.errors import ShareGroupsUnsupportedError
from sharegroup.client.records import TopicIdPartition
from sharegroup.client.settings import ConsumerSettings
from sharegroup.errors import ErrorCode, RequestError, error_code
from sharegroup.kafka_clients.connections.headers import Response
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRejectedError
from sharegroup.protocol.messages import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from sharegroup.protocol.topic_ids import NO_TOPIC_ID

logger = logging.getLogger(__name__)

Address = tuple[str, int]
_GROUP, _KEYS_VERSION, _ERRORS_KEPT = 0, 4, (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION)
#: API keys of ShareGroupHeartbeat, ShareFetch and ShareAcknowledge.
_SHARE_APIS = (76, 78, 79)


class Cluster:
    """Connections to the brokers of one cluster, and the newest metadata.

    Each broker has two connections. One is for the share session, because its requests may wait for records. The other
    is for all other requests. Methods raise UpstreamUnavailableError if a broker does not respond.
    """

    def __init__(self, settings: ConsumerSettings, connector: Connector) -> None:
        self._settings, self._connector = settings, connector
        self._connection_settings = {"client_id": settings.client_id, **settings.connection}
        self._bootstrap = [_address(server) for server in settings.bootstrap_servers]
        self._addresses: dict[int, Address] = {}
        self._connections: dict[tuple[Address, str], Connection] = {}
        self._locks: dict[tuple[Address, str], asyncio.Lock] = {}
        self._names: dict[UUID, str] = {}
        self._leaders: dict[tuple[UUID, int], int] = {}
        self._refreshed_s: float | None = None
        self._coordinator: Address | None = None
        self._last_answered: Address | None = None
        self._problem: RequestError | None = None

    # -- metadata ------------------------------------------------------------------------------------------------------

    def sources(self, partitions: Iterable[tuple[UUID, int]]) -> dict[TopicIdPartition, int]:
        """Return {partition: leader's node id}, without partitions whose leader is unknown.

        If a leader is unknown, the metadata is marked stale, so that it is fetched again.
        """
        found: dict[TopicIdPartition, int] = {}
        for topic_id, partition in partitions:
            leader = self._leaders.get((topic_id, partition), -1)
            if leader in self._addresses and topic_id in self._names:
                found[TopicIdPartition(topic_id, partition, self._names[topic_id])] = leader
            else:
                self._refreshed_s = None
        return found

    def note_leader(self, topic_id: UUID, partition: int, leader: int, endpoints: Iterable[Any]) -> None:
        """Store the new leader of a partition and the broker addresses, which a response contained.

        `leader` is a node id, and `endpoints` are the addresses. If `leader` is negative or its address is unknown, the
        leader is not stored and the metadata is marked stale.
        """
        for node in endpoints:
            self._addresses[node.node_id] = (node.host, node.port)
        if leader >= 0 and leader in self._addresses:
            self._leaders[topic_id, partition] = leader
        else:
            self._refreshed_s = None

    def forget_leaders(self) -> None:
        """Mark the metadata stale, so that it is fetched again."""
        self._refreshed_s = None

    def raise_problem(self) -> None:
        """Raise the last topic error that a metadata response contained, but only once.

        Does nothing if there is no error.
        """
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    @property
    def is_stale(self) -> bool:
        """Whether the metadata must be fetched: it was marked stale, or is older than `metadata_max_age_ms`."""
        age_s = self._settings.metadata_max_age_ms / 1000
        return self._refreshed_s is None or asyncio.get_running_loop().time() - self._refreshed_s > age_s

    async def refresh(self, topics: Collection[str]) -> None:
        """Fetch the metadata of these topics from the first broker that responds. It replaces the stored metadata.

        A topic error that the application must handle is stored for `raise_problem`.
        """
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name, topic_id=NO_TOPIC_ID) for name in sorted(topics)],
            allow_auto_topic_creation=False,
        )
        response = await self.ask_any(request, MetadataResponse)
        if not response.brokers:
            raise UpstreamUnavailableError("the broker has just started and has no metadata of the cluster yet")
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self._names, self._leaders = {}, {}
        for topic in response.topics:
            code = error_code(topic.error_code)
            if code in _ERRORS_KEPT:
                self._problem = RequestError(code, f"the broker returned no metadata of topic {topic.name}")
            for part in topic.partitions if not topic.error_code else ():
                self._names[topic.topic_id] = str(topic.name)
                self._leaders[topic.topic_id, part.partition_index] = part.leader_id
        self._refreshed_s = asyncio.get_running_loop().time()

    # -- requests ------------------------------------------------------------------------------------------------------

    async def ask_leader(
        self, node_id: int, request: ApiMessage, response: type[Response], wait_ms: int = 0
    ) -> Response:
        """Send a request of a share session to a leader. `wait_ms` is how long the leader may delay its response."""
        return await self._ask(self._address_of(node_id), "session", request, response, wait_ms)

    async def ask_coordinator(self, group_id: str, request: ApiMessage, response: type[Response]) -> Response:
        """Send a request to the coordinator of the group."""
        if self._coordinator is None:
            self._coordinator = await self._find_coordinator(group_id)
        return await self._ask(self._coordinator, "", request, response)

    def forget_coordinator(self) -> None:
        """Forget the coordinator, so that it is looked up again before the next request to it."""
        self._coordinator = None

    async def ask_any(self, request: ApiMessage, response: type[Response]) -> Response:
        """Send a request to the brokers one by one until a broker responds.

        The broker that responded last is tried first. Raises UpstreamUnavailableError if no broker responds. Raises
        UpstreamLoginRejectedError as soon as one broker rejects the login.
        """
        problem: UpstreamUnavailableError | None = None
        candidates = dict.fromkeys([*self._addresses.values(), *self._bootstrap])
        for address in sorted(candidates, key=lambda candidate: candidate != self._last_answered):
            try:
                answer = await self._ask(address, "", request, response)
                self._last_answered = address
                return answer
            except UpstreamLoginRejectedError:
                raise  # the others would reject it as well
            except UpstreamUnavailableError as error:
                problem = error
        assert problem is not None
        raise problem

    async def client_instance_id(self) -> UUID:
        """Request and return a client instance id for client metrics (KIP-714). Raises the broker's RequestError."""
        request = GetTelemetrySubscriptionsRequest(client_instance_id=NO_TOPIC_ID)
        response = await self.ask_any(request, GetTelemetrySubscriptionsResponse)
        if response.error_code:
            raise RequestError(error_code(response.error_code), "the broker returned no client instance id")
        return UUID(bytes=response.client_instance_id.bytes)

    async def version_at(self, node_id: int, request: ApiMessage) -> int:
        """Return the newest version of a request that both the client and the broker `node_id` support."""
        address = self._address_of(node_id)
        return _version(await self._connection(address, "session"), request, address)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections = {}

    # -- inside --------------------------------------------------------------------------------------------------------

    def _address_of(self, node_id: int) -> Address:
        """Return a broker's address. Raises UpstreamUnavailableError if the metadata no longer has this broker."""
        address = self._addresses.get(node_id)
        if address is None:
            raise UpstreamUnavailableError(f"broker {node_id} is unknown")
        return address

    async def _ask(
        self, address: Address, role: str, request: ApiMessage, response: type[Response], wait_ms: int = 0
    ) -> Response:
        connection = await self._connection(address, role)
        version = _version(connection, request, address)
        return await connection.ask(request, response, version, (self._settings.request_timeout_ms + wait_ms) / 1000)

    async def _connection(self, address: Address, role: str) -> Connection:
        """Return the broker's open connection for a role, or open it. Concurrent callers get the same connection.

        `role` is "session" for requests of a share session, and empty for all others.
        """
        async with self._locks.setdefault((address, role), asyncio.Lock()):
            connection = self._connections.get((address, role))
            if connection is None or not connection.is_open:
                connection = await self._connector.connect(*address, self._connection_settings)
                self._connections[address, role] = connection
            return connection

    async def _find_coordinator(self, group_id: str) -> Address:
        request = FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=[group_id], key=group_id)
        response = await self.ask_any(request, FindCoordinatorResponse)
        found: Any = response.coordinators[0] if response.API_VERSION >= _KEYS_VERSION else response
        if found.error_code:
            raise RequestError(error_code(found.error_code), found.error_message or "the coordinator is not available")
        return found.host, found.port


def _version(connection: Connection, request: ApiMessage, address: Address) -> int:
    """Return the newest version of a request that both the client and the broker support.

    Raises RequestError (UNSUPPORTED_VERSION) if there is none.
    """
    low, high = request.valid_versions
    broker_low, broker_high = connection.api_ranges.get(request.API_KEY, (1, 0))
    version = min(high, broker_high)
    if version < max(low, broker_low):
        host, port = address
        if request.API_KEY not in _SHARE_APIS:
            raise RequestError(
                ErrorCode.UNSUPPORTED_VERSION, f"the broker at {host}:{port} does not support {request.name}"
            )
        raise ShareGroupsUnsupportedError(
            f"the broker at {host}:{port} has no share groups: it does not support {request.name}. "
            "Connect to a sharegroup gateway, or to Kafka 4.2 or later with share.version=1"
        )
    return int(version)


def _address(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)
