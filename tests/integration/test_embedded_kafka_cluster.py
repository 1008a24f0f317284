"""The cluster that the tests of failing brokers stand on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.harness.embedded_kafka_cluster import EmbeddedKafkaCluster
from tests.integration.waiting import wait_until

pytestmark = pytest.mark.long

TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedKafkaCluster]:
    properties = {"broker.session.timeout.ms": "6000"}
    with EmbeddedKafkaCluster(3, controllers=3, replication=3, min_insync_replicas=2, properties=properties) as kafka:
        kafka.create_topic(TOPIC, partitions=3)
        yield kafka


def produce(cluster: EmbeddedKafkaCluster, value: str) -> None:
    """One record to each partition."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    for partition in range(3):
        producer.produce(
            TOPIC, value, partition=partition, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(120) == 0
    assert failed == []


def values(cluster: EmbeddedKafkaCluster, last: str) -> list[str]:
    """All values of partition 0, up to `last`."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[str] = []
    while found[-1:] != [last]:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value().decode())
    consumer.close()
    return found


def in_sync(cluster: EmbeddedKafkaCluster) -> list[int]:
    """The in-sync replicas of each partition, 0 while the cluster does not answer."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    try:
        partitions = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
    except KafkaException:
        return [0]
    return [len(partition.isrs) for partition in partitions.values()]


def controller(cluster: EmbeddedKafkaCluster) -> EmbeddedKafka:
    quorum = cluster.brokers[0].admin_client().describe_metadata_quorum()
    leader = quorum["topics"][0]["partitions"][0]["leader_id"]
    return next(broker for broker in cluster.brokers if broker.node_id == leader)


@pytest.mark.parametrize("how", ["kill", "shut_down"])
def test_a_broker_that_comes_back_has_its_data_and_its_ports(cluster: EmbeddedKafkaCluster, how: str) -> None:
    servers, broker = cluster.bootstrap_servers, controller(cluster)
    produce(cluster, f"before {how}")

    getattr(broker, how)()
    produce(cluster, f"meanwhile {how}")
    broker.start()

    wait_until(lambda: in_sync(cluster) == [3, 3, 3], "all replicas are in sync")
    assert values(cluster, f"meanwhile {how}")[-2:] == [f"before {how}", f"meanwhile {how}"]
    assert cluster.bootstrap_servers == servers


def test_a_broker_with_an_empty_disk_copies_all(cluster: EmbeddedKafkaCluster) -> None:
    produce(cluster, "before")
    before = values(cluster, "before")
    broker = cluster.brokers[2]
    broker.shut_down()
    broker.erase()
    wait_until(lambda: in_sync(cluster) == [2, 2, 2], "the broker is known to be away")
    broker.start()

    wait_until(lambda: in_sync(cluster) == [3, 3, 3], "all replicas are in sync")
    assert values(cluster, "before") == before


def test_a_paused_broker_leads_nothing_until_it_goes_on(cluster: EmbeddedKafkaCluster) -> None:
    broker = cluster.brokers[1]
    broker.pause()
    try:
        produce(cluster, "while one is paused")
        assert in_sync(cluster) == [2, 2, 2]
    finally:
        broker.resume()
    wait_until(lambda: in_sync(cluster) == [3, 3, 3], "all replicas are in sync")


def test_internal_topics_are_replicated(cluster: EmbeddedKafkaCluster, unique_name: Callable[[str], str]) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": unique_name("group")})
    consumer.subscribe([TOPIC])
    wait_until(lambda: consumer.poll(0.1) is None and consumer.assignment() != [], "the group has its offsets topic")
    consumer.close()
    (partition,) = cluster.brokers[0].admin_client().describe_topics(["__consumer_offsets"])[0]["partitions"]
    assert len(partition["replica_nodes"]) == 3
