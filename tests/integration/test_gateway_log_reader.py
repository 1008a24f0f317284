"""A gateway's reads and looks against a real broker: a topic that is made again, and a log whose start has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest
from kafka import KafkaAdminClient, TopicPartition

from sharegroup.errors import ErrorCode
from sharegroup.gateway.records.batch_cache import BatchCache
from sharegroup.gateway.records.log_reader import LogPosition, LogReader, LogReadError
from sharegroup.gateway.upstream import cluster as upstream_cluster
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.integration.conftest import NewTopic

MAX_BYTES = 10**6


class Parts(NamedTuple):
    cluster: UpstreamCluster
    reader: LogReader


def run(kafka: EmbeddedKafka, test: Callable[[Parts], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = UpstreamCluster({"bootstrap_servers": [kafka.bootstrap_servers]})
        try:
            await test(Parts(cluster, LogReader(cluster, BatchCache(MAX_BYTES))))
        finally:
            cluster.close()

    asyncio.run(main())


async def position_of(cluster: UpstreamCluster, topic: str) -> LogPosition:
    known = (await cluster.topics([topic]))[topic]
    assert not known.has_made_id
    return LogPosition(known, 0, False)


async def changed(kafka: EmbeddedKafka, change: Callable[[KafkaAdminClient], object]) -> None:
    """Made by an administrator, beside the event loop."""

    def make() -> None:
        admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
        try:
            change(admin)
        finally:
            admin.close()

    await asyncio.get_running_loop().run_in_executor(None, make)


async def error_of(reader: LogReader, position: LogPosition, offset: int) -> LogReadError:
    with pytest.raises(LogReadError) as error:
        await reader.read(position, offset)
    return error.value


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_cluster, "SEEN_FOR_S", 0.0)


def test_a_topic_that_was_made_again_is_not_read_as_the_old_one(kafka: EmbeddedKafka, new_topic: NewTopic) -> None:
    topic = new_topic(1, 10)

    async def test(parts: Parts) -> None:
        cluster, reader = parts
        old = await position_of(cluster, topic)
        assert await cluster.exists(old.topic.topic_id)
        await reader.read(old, 0)
        assert reader.get_cached(old, 0, MAX_BYTES)[-1].last_offset == 9
        await changed(kafka, lambda admin: admin.delete_topics([topic]))
        while await cluster.exists(old.topic.topic_id):
            pass  # each call requests metadata
        assert not reader.get_cached(old, 0, MAX_BYTES)
        assert (await error_of(reader, old, 0)).code == ErrorCode.UNKNOWN_TOPIC_ID
        await asyncio.get_running_loop().run_in_executor(None, kafka.create_topic, topic)
        new = await position_of(cluster, topic)
        assert new.topic.topic_id != old.topic.topic_id
        assert not await cluster.exists(old.topic.topic_id)

    run(kafka, test)


def test_a_broker_does_not_read_a_new_topic_by_an_old_id(kafka: EmbeddedKafka, new_topic: NewTopic) -> None:
    """Also while the gateway has not noticed: its metadata is older."""
    topic = new_topic(1, 10)

    async def test(parts: Parts) -> None:
        cluster, reader = parts
        old = await position_of(cluster, topic)
        await changed(kafka, lambda admin: admin.delete_topics([topic]))
        other = UpstreamCluster({"bootstrap_servers": [kafka.bootstrap_servers]})
        await other.refresh()
        while await other.exists(old.topic.topic_id):
            pass  # each call requests metadata
        other.close()
        await asyncio.get_running_loop().run_in_executor(None, kafka.create_topic, topic)
        assert cluster.topic_by_id(old.topic.topic_id) is not None
        assert (await error_of(reader, old, 0)).code == ErrorCode.UNKNOWN_TOPIC_ID
        assert cluster.topic_by_id(old.topic.topic_id) is None  # that made it look

    run(kafka, test)


def test_below_the_start_of_the_log_is_told_where_it_starts(kafka: EmbeddedKafka, new_topic: NewTopic) -> None:
    topic = new_topic(1, 10)

    async def test(parts: Parts) -> None:
        position = await position_of(parts.cluster, topic)
        await changed(kafka, lambda admin: admin.delete_records({TopicPartition(topic, 0): 6}))
        error = await error_of(parts.reader, position, 2)
        assert (error.code, error.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 6)

    run(kafka, test)
