"""The job's client for log offsets against three brokers on real ports, which fall silent or lose partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

from sharegroup.kafka_clients import headers as wire
from sharegroup.kafka_clients import log_offsets, silent_brokers
from sharegroup.kafka_clients.framing import FrameProtocol
from sharegroup.kafka_clients.log_offsets import EARLIEST, LATEST, LogOffsetsClient

NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION = 6, 3
#: For a test that would wait without end.
DEADLINE_S = 60
VERSIONS = {2: 5, 3: 9, 18: 3}
P0, P1, P2, BILLS = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("orders", 2),
    TopicPartition("bills", 0),
)


class Cluster:
    """Who leads, and where logs end; a log starts at 1. All brokers give the same metadata."""

    def __init__(self) -> None:
        self.leaders = {P0: 1, P1: 2, P2: 3, BILLS: 1}
        self.ends = {P0: 10, P1: 20, P2: 30, BILLS: 40}
        self.brokers = {node_id: Broker(self, node_id) for node_id in (1, 2, 3)}

    def metadata(self, names: list[str]) -> MetadataResponse:
        broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
        brokers = [broker(node_id=b.node_id, host="127.0.0.1", port=b.port, rack=None) for b in self.brokers.values()]
        topics = []
        for name in names:
            led = {p.partition: at for p, at in self.leaders.items() if p.topic == name}
            partitions = [
                topic.MetadataResponsePartition(
                    error_code=0, partition_index=p, leader_id=at, leader_epoch=0, replica_nodes=[], isr_nodes=[],
                    offline_replicas=[],
                )
                for p, at in led.items()
            ]  # fmt: skip
            error_code = 0 if led else UNKNOWN_TOPIC_OR_PARTITION
            topics.append(topic(error_code=error_code, name=name, is_internal=False, partitions=partitions))
        return MetadataResponse(throttle_time_ms=0, brokers=brokers, cluster_id="c", controller_id=1, topics=topics)


class Broker:
    """One broker; while `is_silent` it accepts connections and answers nothing."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster, self.node_id = cluster, node_id
        self.is_silent = False
        self.asked: list[list[TopicPartition]] = []
        self.metadata_requests = 0
        self.connections: list[Connection] = []
        self.port = 0

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Connection(self), "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        self.server.close()
        for connection in self.connections:
            connection.abort()

    def answer(self, header: wire.RequestHeader, frame: memoryview) -> ApiMessage:
        if header.api_key == 18:
            key = ApiVersionsResponse.ApiVersion
            return ApiVersionsResponse(
                error_code=0, api_keys=[key(api_key=k, min_version=0, max_version=v) for k, v in VERSIONS.items()]
            )
        if header.api_key == 3:
            self.metadata_requests += 1
            request = _decoded(MetadataRequest, header, frame)
            return self.cluster.metadata([topic.name for topic in request.topics])
        return self.offsets(_decoded(ListOffsetsRequest, header, frame))

    def offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topic_of = ListOffsetsResponse.ListOffsetsTopicResponse
        self.asked.append([])
        topics = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                self.asked[-1].append(tp)
                leads = self.cluster.leaders.get(tp) == self.node_id
                offset = self.cluster.ends[tp] if partition.timestamp == LATEST else 1
                partitions.append(
                    topic_of.ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=0 if leads else NOT_LEADER_OR_FOLLOWER,
                        timestamp=-1, offset=offset if leads else -1, leader_epoch=0,
                    )
                )  # fmt: skip
            topics.append(topic_of(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)


def _decoded(message: type[ApiMessage], header: wire.RequestHeader, frame: memoryview) -> Any:
    start = header.end
    if message.flexible_version_q(header.api_version):
        start = wire.skip_tagged_fields(frame, start)
    return message.decode(bytes(frame[start:]), version=header.api_version)


class Connection(FrameProtocol):
    def __init__(self, broker: Broker) -> None:
        super().__init__(2**31 - 1)
        self._broker = broker
        broker.connections.append(self)

    def frame_received(self, frame: memoryview) -> None:
        if self._broker.is_silent or self.transport is None:
            return
        header = wire.read_header(frame)
        answer = self._broker.answer(header, frame)
        self.transport.write(wire.encode_response(answer, header.api_version, header.correlation_id))

    def frame_error(self, problem: str) -> None:
        raise AssertionError(problem)


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent broker costs its timeout, which is all that these tests wait for."""
    monkeypatch.setattr(log_offsets, "OFFSETS_TIMEOUT_S", 0.5)
    monkeypatch.setattr(silent_brokers, "_RETRY_S", 0.01)


def run(test: Callable[[Cluster, LogOffsetsClient], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = Cluster()
        for broker in cluster.brokers.values():
            await broker.start()
        servers = [f"127.0.0.1:{broker.port}" for broker in cluster.brokers.values()]
        client = LogOffsetsClient({"bootstrap_servers": servers})
        try:
            await test(cluster, client)
        finally:
            client.close()
            for broker in cluster.brokers.values():
                broker.stop()

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


def test_each_leader_is_asked_once_for_all_its_partitions() -> None:
    async def test(cluster: Cluster, client: LogOffsetsClient) -> None:
        assert await client.offsets(dict.fromkeys(cluster.leaders, LATEST)) == cluster.ends
        asked = {node_id: broker.asked for node_id, broker in cluster.brokers.items()}
        assert asked == {1: [[P0, BILLS]], 2: [[P1]], 3: [[P2]]}
        assert sum(broker.metadata_requests for broker in cluster.brokers.values()) == 1
        assert await client.offsets({P1: EARLIEST}) == {P1: 1}

    run(test)


def test_a_silent_leader_costs_only_its_partitions() -> None:
    async def test(cluster: Cluster, client: LogOffsetsClient) -> None:
        wanted, others = dict.fromkeys(cluster.leaders, LATEST), {P0: 10, P2: 30, BILLS: 40}
        await client.offsets(wanted)
        cluster.brokers[2].is_silent = True
        for _ in range(3):
            assert await client.offsets(wanted) == others
        cluster.brokers[2].is_silent = False
        cluster.brokers[2].asked.clear()
        while await client.offsets(wanted) != cluster.ends:
            assert await client.offsets({P0: LATEST}) == {P0: 10}

    run(test)


def test_nobody_waits_for_a_leader_that_is_silent_already(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(cluster: Cluster, client: LogOffsetsClient) -> None:
        cluster.brokers[2].is_silent = True
        assert await client.offsets({P1: LATEST}) == {}
        monkeypatch.setattr(log_offsets, "OFFSETS_TIMEOUT_S", 1_000_000)  # waiting again would hang
        assert await client.offsets({P0: LATEST, P1: LATEST}) == {P0: 10}

    run(test)


def test_an_outage_is_one_line_at_its_begin_and_one_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: Cluster, client: LogOffsetsClient) -> None:
        cluster.brokers[2].is_silent = True
        for _ in range(3):
            await client.offsets({P1: LATEST})
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith("broker 2 does not answer: ")
        cluster.brokers[2].is_silent = False
        while not await client.offsets({P1: LATEST}):
            pass  # each look asks the other brokers who leads, and the client tries the silent one meanwhile
        assert len(caplog.messages) == 2
        assert caplog.messages[1].startswith("broker 2 answers again after ")

    run(test)


def test_the_next_leader_is_found_after_a_refusal() -> None:
    async def test(cluster: Cluster, client: LogOffsetsClient) -> None:
        assert await client.offsets({P0: LATEST, P1: LATEST}) == {P0: 10, P1: 20}
        cluster.leaders[P0] = 3
        assert await client.offsets({P0: LATEST, P1: LATEST}) == {P1: 20}
        assert await client.offsets({P0: LATEST, P1: LATEST}) == {P0: 10, P1: 20}
        assert cluster.brokers[3].asked == [[P0]]

    run(test)


def test_a_topic_that_does_not_exist_costs_only_itself() -> None:
    async def test(cluster: Cluster, client: LogOffsetsClient) -> None:
        gone = TopicPartition("gone", 0)
        assert await client.offsets({gone: LATEST, P0: LATEST}) == {P0: 10}
        (described,) = await client.topics(["gone"])
        assert described.error_code == UNKNOWN_TOPIC_OR_PARTITION

    run(test)
