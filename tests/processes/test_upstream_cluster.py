"""Metadata of the upstream cluster, from brokers on real ports of which some never respond."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest, MetadataResponse

from sharegroup.gateway.upstream import cluster as upstream_cluster
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.kafka_clients.connections.broker_connections import METADATA_TIMEOUT_S, NEXT_BROKER_S
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.framing import FrameProtocol
from tests.harness.event_loop import EventLoop, advance, until

ClusterOf = Callable[..., UpstreamCluster]
VERSIONS = {MetadataRequest.API_KEY: 12, ApiVersionsResponse.API_KEY: 3}


class Broker:
    """A broker whose metadata has the brokers in `knows`. While it `hangs`, it accepts requests without responding."""

    def __init__(self, node_id: int) -> None:
        self.node_id, self.port = node_id, 0
        self.knows: list[Broker] = []
        self.hangs = False
        self.requests = 0
        self.connections: list[_Connection] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self.connections:
            connection.abort()

    def answer_all(self) -> None:
        """Respond to all waiting requests, and no longer hang."""
        self.hangs = False
        for connection in self.connections:
            connection.answer_all()

    def answer(self, api_key: int) -> Any:
        if api_key == ApiVersionsResponse.API_KEY:
            key = ApiVersionsResponse.ApiVersion
            keys = [key(api_key=k, min_version=0, max_version=version) for k, version in VERSIONS.items()]
            return ApiVersionsResponse(error_code=0, api_keys=keys)
        broker = MetadataResponse.MetadataResponseBroker
        known = [broker(node_id=each.node_id, host="127.0.0.1", port=each.port, rack=None) for each in self.knows]
        return MetadataResponse(throttle_time_ms=0, brokers=known, cluster_id="c", controller_id=1, topics=[])


class _Connection(FrameProtocol):
    def __init__(self, broker: Broker) -> None:
        super().__init__(2**31 - 1)
        self._broker = broker
        self.unanswered: list[wire.RequestHeader] = []
        broker.connections.append(self)

    def frame_received(self, frame: memoryview) -> None:
        self._broker.requests += 1
        self.unanswered.append(wire.read_header(frame))
        if not self._broker.hangs:
            self.answer_all()

    def answer_all(self) -> None:
        for header in self.unanswered:
            answer = wire.encode_response(
                self._broker.answer(header.api_key), header.api_version, header.correlation_id
            )
            if self.transport is not None:
                self.transport.write(answer)
        self.unanswered.clear()

    def frame_error(self, problem: str) -> None:
        raise AssertionError(problem)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_cluster, "REFRESH_PAUSE_S", 0.0)


async def _stop_all(brokers: list[Broker]) -> None:
    """Stop the brokers and wait until no other task is left."""
    for broker in brokers:
        broker.stop()
    await until(lambda: len(asyncio.all_tasks()) == 1)


@pytest.fixture
def brokers(loop: EventLoop) -> Iterator[list[Broker]]:
    """Three brokers that know each other."""
    brokers = [Broker(node_id) for node_id in (1, 2, 3)]
    for broker in brokers:
        broker.knows = brokers
        loop.finish(broker.start())
    yield brokers
    loop.finish(_stop_all(brokers))


@pytest.fixture
def cluster_of(loop: EventLoop, brokers: list[Broker]) -> Iterator[ClusterOf]:
    """Return a function that makes a cluster from bootstrap brokers."""
    clusters = []

    def cluster_of(*bootstrap: Broker) -> UpstreamCluster:
        clusters.append(UpstreamCluster({"bootstrap_servers": [f"127.0.0.1:{each.port}" for each in bootstrap]}))
        return clusters[-1]

    yield cluster_of
    for cluster in clusters:
        loop.call(cluster.close)


async def refresh_past(hung: Broker, cluster: UpstreamCluster, wait_s: float = NEXT_BROKER_S) -> None:
    """Refresh while the first broker hangs, and set the clock forward when it has received the request."""
    asked = hung.requests
    refreshing = asyncio.ensure_future(cluster.refresh())
    await until(lambda: hung.requests > asked)
    advance(wait_s)
    await refreshing


async def test_hanging_broker_delays_only_one_refresh(brokers: list[Broker], cluster_of: ClusterOf) -> None:
    hung, healthy, _ = brokers
    hung.hangs = True
    cluster = cluster_of(hung, healthy)
    await refresh_past(hung, cluster)
    for _ in range(2):
        await cluster.refresh()
    assert cluster.node_ids == [1, 2, 3]
    assert len(hung.connections) == 1


async def test_other_requests_of_a_hanging_broker_continue(brokers: list[Broker], cluster_of: ClusterOf) -> None:
    first, second, third = brokers
    cluster = cluster_of(first)
    await cluster.refresh()
    await cluster.features(1)
    first.hangs = True
    other = asyncio.ensure_future(cluster.ask(1, MetadataRequest(topics=[]), MetadataResponse))
    second.knows = [first, second]
    await refresh_past(first, cluster)
    assert cluster.node_ids == [1, 2]
    assert not third.connections
    second.knows = [second]
    await cluster.refresh()
    assert cluster.node_ids == [2]
    assert not other.done()
    first.answer_all()
    assert len((await other).brokers) == 3


async def test_bootstrap_servers_are_queried_when_known_brokers_left(
    brokers: list[Broker], cluster_of: ClusterOf
) -> None:
    gone, present, bootstrap = brokers
    cluster = cluster_of(bootstrap)
    await cluster.refresh()
    for broker in brokers:
        broker.knows = [present]
    await cluster.refresh()
    bootstrap.hangs = True
    await refresh_past(bootstrap, cluster)
    assert len(present.connections) == 1
    present.stop()
    bootstrap.answer_all()
    await cluster.refresh()
    assert not gone.connections


async def test_error_when_no_broker_responds(brokers: list[Broker], cluster_of: ClusterOf) -> None:
    cluster = cluster_of(brokers[0])
    brokers[0].hangs = True
    with pytest.raises(UpstreamUnavailableError, match=f"returned no metadata within {METADATA_TIMEOUT_S:g} s"):
        await refresh_past(brokers[0], cluster, METADATA_TIMEOUT_S)
    brokers[0].answer_all()
    await cluster.refresh()
    assert cluster.node_ids == [1, 2, 3]


async def test_metadata_without_brokers_is_rejected(brokers: list[Broker], cluster_of: ClusterOf) -> None:
    cluster = cluster_of(brokers[0])
    await cluster.refresh()
    brokers[0].knows = []
    await cluster.refresh()
    assert cluster.node_ids == [1, 2, 3]
    assert len(brokers[1].connections) == 1
