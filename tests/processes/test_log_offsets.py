"""The job's client for log offsets with three brokers on real ports, which become silent or lose partitions."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kafka import TopicPartition
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.kafka_clients.connections import log_offsets, silent_brokers
from sharegroup.kafka_clients.connections.framing import FrameProtocol
from sharegroup.kafka_clients.connections.log_offsets import EARLIEST, LATEST, LogOffsetsClient
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from tests.harness.event_loop import EventLoop, until

NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_LEADER_EPOCH = 6, 3, 75
VERSIONS = {2: 5, 3: 12, 18: 3}
TOPIC_IDS = {"orders": UUID(int=1), "bills": UUID(int=2)}
P0, P1, P2, BILLS = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("orders", 2),
    TopicPartition("bills", 0),
)


class View:
    """The leaders with their epochs, and the end offsets of logs. A log starts at 1."""

    def __init__(self) -> None:
        self.leaders = {P0: 1, P1: 2, P2: 3, BILLS: 1}
        self.epochs = dict.fromkeys(self.leaders, 0)
        self.ends = {P0: 10, P1: 20, P2: 30, BILLS: 40}

    def elect(self, partition: TopicPartition, node_id: int) -> None:
        self.leaders[partition] = node_id
        self.epochs[partition] += 1


class Cluster(View):
    """A cluster whose brokers have the same view, except those with an outdated one (`Broker.view`)."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers = {node_id: Broker(self, node_id) for node_id in (1, 2, 3)}

    def metadata(self, names: list[str], view: View) -> MetadataResponse:
        broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
        brokers = [broker(node_id=b.node_id, host="127.0.0.1", port=b.port, rack=None) for b in self.brokers.values()]
        topics = []
        for name in names:
            led = {p: at for p, at in view.leaders.items() if p.topic == name}
            partitions = [
                topic.MetadataResponsePartition(
                    error_code=0, partition_index=p.partition, leader_id=at, replica_nodes=[], isr_nodes=[],
                    leader_epoch=view.epochs[p], offline_replicas=[],
                )
                for p, at in led.items()
            ]  # fmt: skip
            error_code = 0 if led else UNKNOWN_TOPIC_OR_PARTITION
            topics.append(
                topic(
                    error_code=error_code,
                    name=name,
                    topic_id=TOPIC_IDS.get(name, NO_TOPIC_ID),
                    is_internal=False,
                    partitions=partitions,
                )
            )
        return MetadataResponse(throttle_time_ms=0, brokers=brokers, cluster_id="c", controller_id=1, topics=topics)


class Broker:
    """A broker. While `is_silent`, it accepts connections but does not respond."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster, self.node_id = cluster, node_id
        self.is_silent = False
        self.view: View = cluster
        self.asked: list[list[TopicPartition]] = []
        self.metadata_requests = 0
        self.connections: list[Connection] = []
        self.port = 0

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Connection(self), "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop; must be called in the last task of the loop."""
        self.server.close()
        await until(lambda: len(asyncio.all_tasks()) == 1)  # some may still be accepted
        for connection in self.connections:
            connection.abort()
        await until(lambda: all(connection.transport is None for connection in self.connections))

    def answer(self, header: wire.RequestHeader, frame: memoryview) -> ApiMessage:
        if header.api_key == 18:
            key = ApiVersionsResponse.ApiVersion
            return ApiVersionsResponse(
                error_code=0, api_keys=[key(api_key=k, min_version=0, max_version=v) for k, v in VERSIONS.items()]
            )
        if header.api_key == 3:
            self.metadata_requests += 1
            request = _decoded(MetadataRequest, header, frame)
            return self.cluster.metadata([topic.name for topic in request.topics], self.view)
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
                error_code = 0
                if self.view.leaders.get(tp) != self.node_id:
                    error_code = NOT_LEADER_OR_FOLLOWER
                elif partition.current_leader_epoch > self.view.epochs[tp]:
                    error_code = UNKNOWN_LEADER_EPOCH
                offset = self.view.ends[tp] if partition.timestamp == LATEST else 1
                partitions.append(
                    topic_of.ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=error_code,
                        timestamp=-1, offset=-1 if error_code else offset, leader_epoch=0,
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
    """The brokers share the process of the test, so with a short timeout a busy machine makes them silent."""
    monkeypatch.setattr(log_offsets, "OFFSETS_TIMEOUT_S", 3.0)
    monkeypatch.setattr(silent_brokers, "_RETRY_S", 0.01)


@pytest.fixture
def cluster(loop: EventLoop) -> Iterator[Cluster]:
    """Three brokers on real ports."""
    cluster = Cluster()
    for broker in cluster.brokers.values():
        loop.finish(broker.start())
    yield cluster
    for broker in cluster.brokers.values():
        loop.finish(broker.stop())


@pytest.fixture
def client(loop: EventLoop, cluster: Cluster) -> Iterator[LogOffsetsClient]:
    client = LogOffsetsClient({"bootstrap_servers": [f"127.0.0.1:{each.port}" for each in cluster.brokers.values()]})
    yield client
    loop.call(client.close)


async def test_each_leader_gets_one_request_for_its_partitions(cluster: Cluster, client: LogOffsetsClient) -> None:
    assert await client.fetch_offsets(dict.fromkeys(cluster.leaders, LATEST)) == cluster.ends
    asked = {node_id: broker.asked for node_id, broker in cluster.brokers.items()}
    assert asked == {1: [[P0, BILLS]], 2: [[P1]], 3: [[P2]]}
    assert sum(broker.metadata_requests for broker in cluster.brokers.values()) == 1
    assert await client.fetch_offsets({P1: EARLIEST}) == {P1: 1}


async def test_silent_leader_affects_only_its_partitions(cluster: Cluster, client: LogOffsetsClient) -> None:
    wanted, others = dict.fromkeys(cluster.leaders, LATEST), {P0: 10, P2: 30, BILLS: 40}
    await client.fetch_offsets(wanted)
    cluster.brokers[2].is_silent = True
    for _ in range(3):
        assert await client.fetch_offsets(wanted) == others
    cluster.brokers[2].is_silent = False
    cluster.brokers[2].asked.clear()
    while await client.fetch_offsets(wanted) != cluster.ends:
        assert await client.fetch_offsets({P0: LATEST}) == {P0: 10}


async def test_requests_do_not_wait_for_a_known_silent_leader(
    cluster: Cluster, client: LogOffsetsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.brokers[2].is_silent = True
    assert await client.fetch_offsets({P1: LATEST}) == {}
    monkeypatch.setattr(log_offsets, "OFFSETS_TIMEOUT_S", 1_000_000)  # waiting again would hang
    assert await client.fetch_offsets({P0: LATEST, P1: LATEST}) == {P0: 10}


async def test_outage_is_logged_at_its_start_and_its_end(
    cluster: Cluster, client: LogOffsetsClient, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.brokers[2].is_silent = True
    for _ in range(3):
        await client.fetch_offsets({P1: LATEST})
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("broker 2 does not respond: ")
    cluster.brokers[2].is_silent = False
    while not await client.fetch_offsets({P1: LATEST}):
        pass  # each call queries the other brokers for leaders, and the client retries the silent one
    assert len(caplog.messages) == 2
    assert caplog.messages[1].startswith("broker 2 responds again after ")


async def test_next_leader_is_found_after_a_rejection(cluster: Cluster, client: LogOffsetsClient) -> None:
    assert await client.fetch_offsets({P0: LATEST, P1: LATEST}) == {P0: 10, P1: 20}
    cluster.leaders[P0] = 3
    assert await client.fetch_offsets({P0: LATEST, P1: LATEST}) == {P1: 20}
    assert await client.fetch_offsets({P0: LATEST, P1: LATEST}) == {P0: 10, P1: 20}
    assert cluster.brokers[3].asked == [[P0]]


def _freeze_view(broker: Broker) -> None:
    """Let the broker keep its current view from now on."""
    broker.view = View()
    for name, value in vars(broker.view).items():
        setattr(broker.view, name, copy.copy(getattr(broker.cluster, name, value)))


async def test_paused_former_leader_is_not_trusted(cluster: Cluster, client: LogOffsetsClient) -> None:
    paused, *others = cluster.brokers.values()
    assert await client.fetch_offsets({P0: LATEST}) == {P0: 10}
    paused.is_silent = True
    _freeze_view(paused)
    cluster.elect(P0, 3)
    cluster.ends[P0] = 15
    while await client.fetch_offsets({P0: LATEST}) != {P0: 15}:
        pass
    paused.is_silent = False
    for other in others:
        other.is_silent = True  # so that only the paused one returns leaders
    while await client.fetch_offsets({BILLS: LATEST}) != {BILLS: 40}:
        pass
    for _ in range(3):
        assert await client.fetch_offsets({P0: LATEST}) == {}
    for other in others:
        other.is_silent = False
    while await client.fetch_offsets({P0: LATEST}) != {P0: 15}:
        pass


async def test_leader_with_an_outdated_epoch_is_not_trusted(cluster: Cluster, client: LogOffsetsClient) -> None:
    _freeze_view(cluster.brokers[1])
    cluster.elect(P0, 3)
    cluster.elect(P0, 1)
    cluster.ends[P0] = 15
    cluster.brokers[1].is_silent = True
    await client.fetch_topics(["orders"])  # from another broker
    cluster.brokers[1].is_silent = False
    assert await client.fetch_offsets({P0: LATEST}) == {}
    cluster.brokers[1].view = cluster
    while await client.fetch_offsets({P0: LATEST}) != {P0: 15}:
        pass


async def test_recreated_topic_starts_with_a_lower_epoch(
    cluster: Cluster, client: LogOffsetsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.epochs[P0] = 7
    assert await client.fetch_offsets({P0: LATEST}) == {P0: 10}
    monkeypatch.setitem(TOPIC_IDS, "orders", UUID(int=3))
    cluster.epochs[P0], cluster.ends[P0] = 0, 2
    await client.fetch_topics(["orders"])
    assert await client.fetch_offsets({P0: LATEST}) == {P0: 2}


async def test_missing_topic_affects_no_other(cluster: Cluster, client: LogOffsetsClient) -> None:
    gone = TopicPartition("gone", 0)
    assert await client.fetch_offsets({gone: LATEST, P0: LATEST}) == {P0: 10}
    (described,) = await client.fetch_topics(["gone"])
    assert described.error_code == UNKNOWN_TOPIC_OR_PARTITION
