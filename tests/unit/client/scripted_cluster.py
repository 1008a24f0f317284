"""Two brokers in the same process that answer as a test decides, behind the client's connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataResponse,
)

from sharegroup.client.clock import Clock, SteadyClock
from sharegroup.client.connector import UpstreamUnavailableError
from sharegroup.client.testing.messages import API_RANGES, find_coordinator_response
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.unit.client.test_decoding import batch

TOPIC_ID, TOPIC = UUID(int=7), "orders"
_FETCHED = ShareFetchResponse.ShareFetchableTopicResponse
_ACKNOWLEDGED = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse


class ScriptedCluster:
    """Brokers 1 and 2, at `broker-1:1` and `broker-2:2`, with one topic of one partition.

    `connect_error` is raised by all attempts to connect.

    Attributes:
        leader: the leader in metadata, which may be old; `real_leader` answers fetches.
        coordinator: the broker that is the group's coordinator.
        down: brokers that accept no connection.
        next_errors: errors of the next fetches, one each.
        attempts: how often a connection was tried.
        sent: (node id, request) of each request when it is sent.
        asked: (node id, request) of each request when it is answered.
        answers: requests are answered while this is set.
        has_records: fetches are answered while this is set.
    """

    def __init__(self, connect_error: UpstreamUnavailableError | None = None) -> None:
        self.clock: Clock = SteadyClock()
        self._connect_error, self.attempts = connect_error, 0
        self.leader = self.real_leader = self.coordinator = 1
        self.down: set[int] = set()
        self.next_errors: list[int] = []
        self.sent: list[tuple[int, Any]] = []
        self.asked: list[tuple[int, Any]] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.has_records = asyncio.Event()
        self.has_records.set()
        self.connections: list[ScriptedConnection] = []
        self._offset = 0

    async def connect(self, host: str, port: int, settings: ClientSettings) -> ScriptedConnection:
        """Implement Connector."""
        self.attempts += 1
        if self._connect_error is not None:
            raise self._connect_error
        if port in self.down:
            raise UpstreamUnavailableError(f"could not connect to broker {host}:{port}")
        connection = ScriptedConnection(self, port)
        self.connections.append(connection)
        return connection

    def stop(self, node_id: int) -> None:
        """Stop a broker: its connections are lost, and it accepts no others."""
        self.down.add(node_id)
        for connection in self.connections:
            if connection.node_id == node_id:
                connection.close()

    def requests(self, kind: type[ApiMessage]) -> list[tuple[int, Any]]:
        """Return the requests of a kind with their brokers."""
        return [(node_id, request) for node_id, request in self.asked if isinstance(request, kind)]

    def answer(self, node_id: int, request: Any) -> Any:
        """Return the response of a broker."""
        self.asked.append((node_id, request))
        answers: dict[type, Callable[[int, Any], Any]] = {
            MetadataRequest: self._metadata,
            FindCoordinatorRequest: self._find_coordinator,
            ShareGroupHeartbeatRequest: self._heartbeat,
            ShareFetchRequest: self._fetch,
            ShareAcknowledgeRequest: self._acknowledge,
        }
        return answers[type(request)](node_id, request)

    def _metadata(self, _node_id: int, _request: Any) -> Any:
        broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
        part = topic.MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=self.leader, replica_nodes=[], isr_nodes=[]
        )
        return MetadataResponse(
            brokers=[broker(node_id=number, host=f"broker-{number}", port=number) for number in (1, 2)],
            topics=[topic(error_code=0, name=TOPIC, topic_id=TOPIC_ID, partitions=[part])],
        )

    def _find_coordinator(self, _node_id: int, request: Any) -> Any:
        return find_coordinator_response(request, self.coordinator, f"broker-{self.coordinator}", self.coordinator)

    def _heartbeat(self, node_id: int, request: Any) -> Any:
        assigned = ShareGroupHeartbeatResponse.Assignment
        topics = [assigned.TopicPartitions(topic_id=TOPIC_ID, partitions=[0])]
        return ShareGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=0 if node_id == self.coordinator else 16,
            error_message=None,
            member_id=request.member_id,
            member_epoch=-1 if request.member_epoch == -1 else request.member_epoch + 1,
            heartbeat_interval_ms=5_000,
            assignment=assigned(topic_partitions=topics),
        )

    def _fetch(self, node_id: int, _request: Any) -> Any:
        error = self.next_errors.pop(0) if self.next_errors else 0
        part = _FETCHED.PartitionData
        is_leader = node_id == self.real_leader
        acquired = [part.AcquiredRecords(first_offset=self._offset, last_offset=self._offset, delivery_count=1)]
        found = part(
            partition_index=0,
            error_code=0 if is_leader else 6,
            error_message=None,
            acknowledge_error_code=0 if is_leader else 6,
            acknowledge_error_message=None,
            current_leader=part.LeaderIdAndEpoch(leader_id=self.real_leader, leader_epoch=1),
            records=batch(b"%d" % node_id, offset=self._offset) if is_leader else b"",
            acquired_records=acquired if is_leader else [],
        )
        endpoint = ShareFetchResponse.NodeEndpoint(
            node_id=self.real_leader, host=f"broker-{self.real_leader}", port=self.real_leader, rack=None
        )
        self._offset += is_leader and not error
        return ShareFetchResponse(
            throttle_time_ms=0,
            error_code=error,
            error_message=None,
            acquisition_lock_timeout_ms=30_000,
            responses=[] if error else [_FETCHED(topic_id=TOPIC_ID, partitions=[found])],
            node_endpoints=[endpoint],
        )

    def _acknowledge(self, node_id: int, request: Any) -> Any:
        part = _ACKNOWLEDGED.PartitionData
        found = part(
            partition_index=0,
            error_code=0,
            error_message=None,
            current_leader=part.LeaderIdAndEpoch(leader_id=self.real_leader, leader_epoch=1),
        )
        return ShareAcknowledgeResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            acquisition_lock_timeout_ms=30_000,
            responses=[_ACKNOWLEDGED(topic_id=TOPIC_ID, partitions=[found])] if request.topics else [],
            node_endpoints=[],
        )


class ScriptedConnection:
    """A connection to one of the brokers."""

    def __init__(self, cluster: ScriptedCluster, node_id: int) -> None:
        self._cluster, self.node_id = cluster, node_id
        self.is_open, self.api_ranges = True, API_RANGES

    async def ask(self, request: ApiMessage, response: Any, version: int, timeout_s: float = 30.0) -> Any:
        """Implement Connection."""
        if not self.is_open:
            raise UpstreamUnavailableError("the connection to the broker is closed")
        self._cluster.sent.append((self.node_id, request))
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(timeout_s):
                await self._cluster.answers.wait()
                if isinstance(request, ShareFetchRequest):
                    await self._cluster.has_records.wait()
        except TimeoutError as error:
            raise UpstreamUnavailableError("no answer in time") from error
        return self._cluster.answer(self.node_id, request)

    def close(self) -> None:
        """Implement Connection."""
        self.is_open = False
