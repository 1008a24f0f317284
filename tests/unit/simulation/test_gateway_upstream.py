"""The simulated cluster, as the gateway's own code reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.records.batch_cache import BatchCache
from sharegroup.gateway.records.log_reader import READ_TIMEOUT_S, LogPosition, LogReader, LogReadError
from sharegroup.gateway.upstream.cluster import SLOW_RESPONSE_S
from sharegroup.kafka_clients.connections.broker_connections import NEXT_BROKER_S
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.protocol.topic_ids import derive_topic_id
from tests.simulation.brokers.broker_answers import BatchBytes, UpstreamFaults
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.brokers.log_clients import Weather
from tests.simulation.gateway.gateway_batch_bytes import record_offsets
from tests.simulation.gateway.gateway_upstream import SimulatedUpstream
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler
from tests.simulation.virtual_loop import VirtualLoop


class Upstream:
    """A cluster with the topic `orders`, and a gateway's view of it."""

    def __init__(self, has_topic_ids: bool = True) -> None:
        self.clock = Scheduler(1)
        self.kafka = SimulatedKafka(self.clock, Trace(self.clock), brokers=2, has_topic_ids=has_topic_ids)
        self.kafka.create_topic("orders", 1)
        self.loop = VirtualLoop(self.clock)
        self.faults = UpstreamFaults()
        self.cluster = SimulatedUpstream(self.clock, self.kafka, Weather(slow_chance=0), self.faults, BatchBytes())
        self.reader = LogReader(self.cluster, BatchCache(1_000_000))

    def call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """What a coroutine returns, or raises."""

        async def run() -> Any:
            return await work()

        task = self.loop.create_task(run())
        self.clock.run_until(self.clock.now_ms + 60_000)
        return task.result()

    async def timed(self, work: Callable[[], Awaitable[Any]]) -> float:
        """When it was done, by the loop's clock."""
        await work()
        return self.loop.time()

    def silence(self, node_id: int) -> None:
        self.kafka.silence.begin(node_id, is_cut_off=True)

    def produce(self, records: int, **options: Any) -> None:
        self.kafka.append("orders", 0, [(b"k", b"v")] * records, **options)

    def read(self, offset: int, committed: bool = False) -> list[tuple[list[int], bool]]:
        """(offsets of records, whether clients see them) of each batch that a read brings."""

        async def read() -> Any:
            await self.cluster.refresh()
            topic = self.cluster.topic("orders")
            assert topic is not None
            position = LogPosition(topic, 0, committed)
            await self.reader.read(position, offset)
            return self.reader.get_cached(position, offset, 1_000_000)

        return [(record_offsets(b.data), b.is_data) for chunk in self.call(read) for b in chunk.batches]


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


def test_batches_are_read_as_they_were_appended(upstream: Upstream) -> None:
    upstream.produce(3)
    upstream.produce(2, holes=2)
    upstream.produce(1)
    assert upstream.read(1) == [([0, 1, 2], True), ([3, 4], True), ([7], True)]


def test_aborted_batches_are_told_to_those_who_read_committed_records(upstream: Upstream) -> None:
    upstream.produce(2, producer="p")
    upstream.produce(1)
    upstream.kafka.end_transaction("orders", 0, "p", commit=False)
    upstream.produce(1)
    assert upstream.read(0, committed=True) == [([0, 1], False), ([2], True), ([3], False), ([4], True)]
    assert upstream.read(0) == [([0, 1], True), ([2], True), ([3], False), ([4], True)]


def test_open_transactions_end_what_is_read_committed(upstream: Upstream) -> None:
    upstream.produce(2)
    upstream.produce(2, producer="p")
    assert upstream.read(0, committed=True) == [([0, 1], True)]


def test_offsets_out_of_the_log_are_an_error(upstream: Upstream) -> None:
    upstream.produce(5)
    upstream.kafka.delete_records("orders", 0, 3)
    with pytest.raises(LogReadError) as caught:
        upstream.read(1)
    assert (caught.value.code, caught.value.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 3)


def test_a_leader_that_has_moved_says_so_and_is_found(upstream: Upstream) -> None:
    upstream.produce(1)
    upstream.read(0)
    other = 3 - upstream.kafka.log("orders", 0).leader
    upstream.kafka.move_leader("orders", 0, other)
    assert upstream.read(0) == [([0], True)]
    upstream.kafka.move_leader("orders", 0, -1)
    with pytest.raises(UpstreamUnavailableError):
        upstream.read(0)


def test_a_leader_that_comes_back_has_another_epoch_and_what_was_read_is_read_anew(upstream: Upstream) -> None:
    upstream.produce(1)
    upstream.read(0)
    topic = upstream.cluster.topic("orders")
    assert topic is not None
    before = topic.leaders[0]
    told: list[int] = []
    upstream.cluster.on_log_change(lambda topic_id, partition: told.append(partition))
    upstream.kafka.move_leader("orders", 0, -1)
    upstream.kafka.move_leader("orders", 0, before.node_id)
    assert upstream.reader.get_cached(LogPosition(topic, 0, False), 0, 1_000)
    upstream.call(upstream.cluster.refresh)
    assert upstream.cluster.leader(topic.topic_id, 0) == before._replace(epoch=2)
    assert told == [0]
    assert not upstream.reader.get_cached(LogPosition(topic, 0, False), 0, 1_000)


def test_an_answer_may_be_empty_or_lost(upstream: Upstream) -> None:
    upstream.produce(1)
    upstream.faults.empty_answer = 1.0
    topic = upstream.call(lambda: upstream.cluster.topics(["orders"]))["orders"]
    found = upstream.call(lambda: upstream.reader._fetch(LogPosition(topic, 0, False), topic.leaders[0], 0))
    assert (found.records, found.high_watermark) == (b"", 1)
    upstream.faults.lost_answer = 1.0
    with pytest.raises(UpstreamUnavailableError):
        upstream.read(0)


def test_slow_metadata_is_what_was(upstream: Upstream) -> None:
    upstream.clock.run_until(upstream.clock.now_ms + 60_000)
    upstream.kafka.create_topic("new", 1)
    upstream.faults.metadata_lag_ms = 10_000
    assert upstream.call(lambda: upstream.cluster.topics(["new"])) == {}
    assert list(upstream.call(lambda: upstream.cluster.topics(["new"]))) == ["new"]


def test_a_topic_that_is_made_again_has_another_id(upstream: Upstream) -> None:
    gone: list[object] = []
    upstream.cluster.on_log_change(lambda topic_id, partition: gone.append((topic_id, partition)))
    first = upstream.call(lambda: upstream.cluster.topics(["orders"]))["orders"]
    upstream.kafka.delete_topic("orders")
    upstream.kafka.create_topic("orders", 1)
    upstream.call(upstream.cluster.refresh)
    second = upstream.cluster.topic("orders")
    assert second is not None
    assert second.topic_id != first.topic_id
    assert gone == [(first.topic_id, 0)]


def test_brokers_without_topic_ids_are_asked_by_name_and_the_id_is_made() -> None:
    upstream = Upstream(has_topic_ids=False)
    upstream.produce(3)
    assert upstream.read(0) == [([0, 1, 2], True)]
    topic = upstream.cluster.topic("orders")
    assert topic is not None
    assert topic.topic_id == derive_topic_id("simulated", "orders")
    assert topic.has_made_id


def test_without_topic_ids_the_bytes_of_another_topic_are_its_own() -> None:
    upstream = Upstream(has_topic_ids=False)
    upstream.produce(3)
    assert upstream.read(0) == [([0, 1, 2], True)]
    upstream.kafka.delete_topic("orders")
    upstream.call(upstream.cluster.refresh)
    upstream.kafka.create_topic("orders", 1)
    upstream.produce(2)
    assert upstream.read(0) == [([0, 1], True)]


def test_metadata_comes_from_another_broker_while_one_is_silent(upstream: Upstream) -> None:
    upstream.call(upstream.cluster.refresh)
    upstream.silence(1)
    began_s = upstream.loop.time()
    assert upstream.call(lambda: upstream.timed(upstream.cluster.refresh)) - began_s < 2 * NEXT_BROKER_S


def test_a_read_leaves_a_silent_leader_once_another_broker_leads(upstream: Upstream) -> None:
    upstream.produce(1)
    upstream.call(upstream.cluster.refresh)
    topic = upstream.cluster.topic("orders")
    assert topic is not None
    silent = topic.leaders[0].node_id
    upstream.silence(silent)
    upstream.kafka.move_leader("orders", 0, 3 - silent)
    position, began_s = LogPosition(topic, 0, False), upstream.loop.time()

    async def read() -> None:
        with pytest.raises(UpstreamUnavailableError, match="no longer leads"):
            await upstream.reader.read(position, 0)
        await upstream.reader.read(position, 0)

    assert upstream.call(lambda: upstream.timed(read)) - began_s < SLOW_RESPONSE_S + 2 * NEXT_BROKER_S
    assert upstream.reader.get_cached(position, 0, 1_000)


def test_a_silent_leader_delays_a_read_by_the_timeout_of_a_read(upstream: Upstream) -> None:
    upstream.produce(1)
    upstream.call(upstream.cluster.refresh)
    topic = upstream.cluster.topic("orders")
    assert topic is not None
    upstream.silence(topic.leaders[0].node_id)
    began_s = upstream.loop.time()

    async def read() -> None:
        with pytest.raises(UpstreamUnavailableError, match="no answer"):
            await upstream.reader.read(LogPosition(topic, 0, False), 0)

    assert upstream.call(lambda: upstream.timed(read)) - began_s == pytest.approx(READ_TIMEOUT_S)
