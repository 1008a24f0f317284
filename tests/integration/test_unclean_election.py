"""A broker without the last records of a data topic is elected to lead it, in a real cluster.

The log then has new records at offsets that were finished. They are not delivered, and the job says so;
everything else is delivered.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from sharegroup.storage.reading.delivery_log import read_record_history
from sharegroup.testing.embedded_kafka import create_topic
from sharegroup.types import AcknowledgeType, AcquiredRange, Cause
from tests.harness.embedded_kafka_cluster import EmbeddedKafkaCluster
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.long

CUT, OTHER = "cut", "other"
JOB_TOPICS = ("__share_group_requests", "__share_partition_requests", "__share_group_responses")


@pytest.fixture
def cluster() -> Iterator[EmbeddedKafkaCluster]:
    """Broker 1 is the controller and has all topics of the job; brokers 2 and 3 have the topic whose log is cut."""
    with EmbeddedKafkaCluster(3, properties={"broker.session.timeout.ms": "6000"}) as kafka:
        create(kafka, OTHER, [1])
        create(kafka, CUT, [2, 3], {"unclean.leader.election.enable": "true"})
        for name in JOB_TOPICS:
            create(kafka, name, [1], {"message.timestamp.type": "LogAppendTime"})
        yield kafka


def create(kafka: EmbeddedKafkaCluster, name: str, replicas: list[int], config: dict[str, str] | None = None) -> None:
    topic = {"assignments": {0: replicas}, "configs": config or {}}
    create_topic(kafka.brokers[0].admin_client(3), name, 1, topic)


def in_sync(kafka: EmbeddedKafkaCluster) -> tuple[int, list[int]]:
    """The leader and the in-sync replicas of the topic whose log is cut; (-1, []) while nobody says so."""
    admin = AdminClient({"bootstrap.servers": kafka.brokers[0].bootstrap_servers, "log_level": 0})
    try:
        partition = admin.list_topics(CUT, timeout=5).topics[CUT].partitions[0]
    except KafkaException:
        return -1, []
    return partition.leader, partition.isrs


def produce(kafka: EmbeddedKafkaCluster, topic: str, values: list[str]) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []


def fetch_until(member: RawMember, topic: str, last: int) -> dict[int, int]:
    """The delivery count of each record that fetches give out, until `last` is among them."""
    counts: dict[int, int] = {}
    while last not in counts:
        acquired = member.fetch(topic, 0, 100).acquired
        counts |= {offset: count for first, end, count in acquired for offset in range(first, end + 1)}
    return counts


def test_what_an_unclean_election_replaces_is_told_and_nothing_else_is_lost(
    cluster: EmbeddedKafkaCluster, tmp_path: Path
) -> None:
    for topic in (CUT, OTHER):
        produce(cluster, topic, [f"old {number}" for number in range(10)])
    cluster.brokers[2].kill()
    wait_until(lambda: in_sync(cluster) == (2, [2]), "broker 2 is alone in sync", PATIENCE_S)
    produce(cluster, CUT, [f"lost {number}" for number in range(10, 20)])

    topics = {"request.topic.replication.factor": 1}
    with ShareGroupJobRun(tmp_path, cluster.bootstrap_servers, job=topics) as job:
        job.start()
        job.await_running()
        member = RawMember(job.client(), job.new_group())
        member.join({CUT: 1, OTHER: 1})
        assert member.fetch(CUT, 0, 100).acquired == (AcquiredRange(0, 19, 1),)
        assert member.fetch(OTHER, 0, 8).acquired == (AcquiredRange(0, 7, 1),)
        # Of the records that are lost 10..14 and 19 are finished, 15..16 are held, and 17..18 are available again.
        accepted = [(0, 6, AcknowledgeType.ACCEPT), (8, 14, AcknowledgeType.ACCEPT)]
        others = [(17, 18, AcknowledgeType.RELEASE), (19, 19, AcknowledgeType.REJECT)]
        assert member.acknowledge(CUT, 0, [*accepted, *others]).error_code == 0

        cluster.brokers[1].kill()
        cluster.brokers[2].start()
        wait_until(lambda: in_sync(cluster)[0] == 3, "broker 3 leads", PATIENCE_S)
        produce(cluster, CUT, [f"new {number}" for number in range(10, 25)])

        group = member.group_id
        job.await_log(
            f"{CUT}-0 of group {group}: an unclean leader election truncated the log at 10; the delivered offsets 10.."
        )
        assert fetch_until(member, CUT, 24) == {17: 2, 18: 2, **dict.fromkeys(range(20, 25), 1)}
        assert member.acknowledge(CUT, 0, [(7, 7, AcknowledgeType.ACCEPT)]).error_code == 0
        held = [(15, 18, AcknowledgeType.ACCEPT), (20, 24, AcknowledgeType.ACCEPT)]
        assert member.acknowledge(CUT, 0, held).error_code == 0
        assert member.acknowledge(OTHER, 0, [(0, 7, AcknowledgeType.ACCEPT)]).error_code == 0
        assert member.fetch(OTHER, 0, 8).acquired == (AcquiredRange(8, 9, 1),)

        def histories() -> dict[int, list[str]]:
            tables = str(job.tables_path)
            return {
                offset: [row.cause for row in read_record_history(tables, group, CUT, 0, offset)]
                for offset in range(25)
            }

        wait_until(lambda: histories()[24][-1:] == [Cause.ACCEPT], "delivery_log has the last acknowledgement")
        told = [offset for offset, causes in histories().items() if Cause.UNCLEAN_ELECTION in causes]
        assert told == [*range(10, 15), 19]
        assert {causes[0] for causes in histories().values()} == {Cause.FETCH}
        assert job.process.terminate() == 0
