"""The share consumer for Python while one of three Kafka brokers with share groups is killed, stopped or paused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaProducer

from sharegroup.client import ShareConsumer
from sharegroup.kafka_clients.admin import ShareGroupAdmin
from tests.harness.embedded_kafka_cluster import EmbeddedKafkaCluster
from tests.integration.waiting import PATIENCE_S

PARTITIONS, RECORDS = 6, 300

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedKafkaCluster]:
    properties = {"broker.session.timeout.ms": "6000"}
    with EmbeddedKafkaCluster(3, controllers=3, replication=3, min_insync_replicas=2, properties=properties) as kafka:
        yield kafka


def produce(cluster: EmbeddedKafkaCluster, topic: str, first: int) -> None:
    with KafkaProducer(bootstrap_servers=cluster.brokers[0].bootstrap_servers, acks="all") as producer:
        for number in range(first, first + RECORDS):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush()


@pytest.mark.parametrize("failure", ["kill", "shut_down", "pause"])
def test_no_record_is_lost(cluster: EmbeddedKafkaCluster, failure: str, unique_name: Callable[[str], str]) -> None:
    topic, group_id = unique_name("topic"), unique_name("group")
    cluster.create_topic(topic, PARTITIONS)
    with ShareGroupAdmin(cluster.bootstrap_servers) as admin:
        admin.alter_group_configs(
            group_id, {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "15000"}
        )
    accepted: set[int] = set()
    with ShareConsumer(
        cluster.bootstrap_servers,
        group_id=group_id,
        topics=[topic],
        share_acknowledgement_mode="explicit",
        request_timeout_ms=5_000,
    ) as consumer:

        def consume_until(expected: int) -> None:
            end_s = time.monotonic() + PATIENCE_S
            while len(accepted) < expected:
                assert time.monotonic() < end_s, f"{len(accepted)} of {expected} records accepted"
                records = consumer.poll(1.0)
                for record in records:
                    consumer.acknowledge(record)
                results = {(key.topic, key.partition): error for key, error in consumer.commit_sync().items()}
                accepted.update(
                    int(record.value) for record in records if results[record.topic, record.partition] is None
                )

        produce(cluster, topic, 0)
        consume_until(RECORDS)
        broker = cluster.brokers[2]
        getattr(broker, failure)()
        try:
            produce(cluster, topic, RECORDS)
            consume_until(2 * RECORDS)
        finally:
            broker.resume() if failure == "pause" else broker.start()
        produce(cluster, topic, 2 * RECORDS)
        consume_until(3 * RECORDS)
    assert accepted == set(range(3 * RECORDS))
