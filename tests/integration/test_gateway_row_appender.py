"""Rows through connections that are cut under the appender: in a real log each is once, and in order of its key."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest
from kafka import KafkaConsumer, TopicPartition

from sharegroup.gateway.job_client import row_appender
from sharegroup.gateway.job_client.row_appender import RowAppender
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.response_partitions import choose_partition
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.integration.conftest import NewTopic

PARTITIONS, KEYS, CUTS, ROWS_OF_A_CUT = 3, 20, 12, 500


async def cut(appender: RowAppender, after_s: float) -> None:
    """End the connection as a network does, so long after a request went out: the broker may have it, or not."""
    while True:
        for _, kept in appender._leaders._connections._connections.values():
            if kept._connected is not None and kept._connected[0]._waiting:
                connection = kept._connected[0]
                await asyncio.sleep(after_s)
                connection.abort()
                return
        await asyncio.sleep(0)


def test_each_row_is_there_once_and_in_order(
    kafka: EmbeddedKafka, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_appender, "CLOSE_TIMEOUT_S", 60.0)  # for all that is left to be sent
    topic = new_topic(PARTITIONS)
    settings = {"bootstrap_servers": [kafka.bootstrap_servers]}
    count = CUTS * ROWS_OF_A_CUT

    async def append_all() -> None:
        cluster = UpstreamCluster(settings)
        appender = RowAppender(cluster, settings, timeout_s=60)
        assert await appender.has_topics([topic])
        durable = []
        for number in range(count):
            durable.append(appender.append(topic, b"key-%d" % (number % KEYS), b"%d" % number))
            if number % 7 == 0:
                await asyncio.sleep(0)
            if number % ROWS_OF_A_CUT == ROWS_OF_A_CUT // 2:
                await cut(appender, after_s=number / ROWS_OF_A_CUT * 0.0005)
        await appender.close()
        assert all(row.done() for row in durable)
        await asyncio.gather(*durable)
        cluster.close()

    asyncio.run(append_all())
    assert read_back(kafka, topic) == {
        b"key-%d" % key: [b"%d" % number for number in range(key, count, KEYS)] for key in range(KEYS)
    }


def read_back(kafka: EmbeddedKafka, topic: str) -> dict[bytes, list[bytes]]:
    """{key: values in order}; each key is in its partition."""
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    by_key = defaultdict(list)
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        for partition, records in consumer.poll(timeout_ms=500).items():
            for record in records:
                assert choose_partition(record.key, PARTITIONS) == partition.partition
                by_key[record.key].append(record.value)
    consumer.close()
    return dict(by_key)
