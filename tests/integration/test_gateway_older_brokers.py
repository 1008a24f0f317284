"""Two upstream brokers of a release that has no share groups, and clients that go to the gateway's port of each.

The fixtures have the names of those for one broker of the present release, so that the tests of its clients, which are
imported, are these brokers' too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer, TopicPartition

from sharegroup.testing.gateway_process import GatewayProcess
from tests.harness.embedded_kafka_cluster import EmbeddedKafkaCluster
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.conftest import NewTopic as MakeTopic
from tests.integration.lone_gateway import check_end
from tests.integration.share_members import Group, Member, keys, once, poll_in_turns
from tests.integration.test_gateway_share_consumer import (  # noqa: F401 - collected here
    new_group,
    test_a_lock_that_runs_out,
    test_a_member_that_closes_leaves_the_rest_to_others,
    test_a_record_that_nobody_can_handle_is_archived_at_the_limit,
    test_explicit_acknowledgement,
    test_implicit_acknowledgement,
    test_members_share_a_partition,
    test_read_committed,
)
from tests.integration.test_gateway_tools import (  # noqa: F401 - collected here
    test_console_share_consumer,
    test_share_consumer_performance,
    test_verifiable_share_consumer,
)
from tests.integration.waiting import wait_until

pytestmark = pytest.mark.long

PARTITIONS, RECORDS = 4, 50


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafkaCluster]:
    with EmbeddedKafkaCluster(brokers=2, version="3.9") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def share_group_job(
    kafka: EmbeddedKafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ShareGroupJobRun]:
    with ShareGroupJobRun(tmp_path_factory.mktemp("older-job"), kafka.bootstrap_servers) as job:
        job.start_warm(kafka.create_topic)
        yield job


@pytest.fixture(scope="module")
def gateway(share_group_job: ShareGroupJobRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(share_group_job.config_path, tmp_path_factory.mktemp("older") / "gateway.log") as process:
        yield process
        check_end(process)


def test_all_that_clients_do_goes_through_the_ports_of_two_brokers(
    share_group_job: ShareGroupJobRun, gateway: GatewayProcess, unique_name: Callable[[str], str]
) -> None:
    """An admin client makes the topic, a producer fills it and a member reads it, each from the gateway's address."""
    servers = gateway.bootstrap_servers
    assert set(gateway.addresses) == {1, 2}
    group = Group(share_group_job, servers, unique_name("orders"))
    admin = AdminClient({"bootstrap.servers": servers})
    leaders = [[1 + number % 2] for number in range(PARTITIONS)]
    created = admin.create_topics([NewTopic(group.topic, num_partitions=PARTITIONS, replica_assignment=leaders)])
    created[group.topic].result(60)

    def told_leaders() -> list[list[int]]:
        partitions = admin.list_topics(group.topic, timeout=60).topics[group.topic].partitions
        return [[partition.leader] for _, partition in sorted(partitions.items())]

    wait_until(lambda: told_leaders() == leaders, "a broker learns of the topic after the controller's answer")
    metadata = admin.list_topics(timeout=60)
    assert {node: f"{b.host}:{b.port}" for node, b in metadata.brokers.items()} == gateway.addresses

    failed: list[object] = []
    producer = Producer({"bootstrap.servers": servers})
    for number in range(PARTITIONS * RECORDS):
        producer.produce(
            group.topic, b"%d" % number, partition=number % PARTITIONS,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )  # fmt: skip
    assert producer.flush(60) == 0
    assert failed == []

    with group.member() as member:
        member.poll_until(lambda: member.accepted == keys(PARTITIONS, RECORDS))
        assert once(member)
        assert sorted(member.values.values()) == sorted(b"%d" % n for n in range(PARTITIONS * RECORDS))
    assert group.await_finished().outcomes == {"accepted": PARTITIONS * RECORDS}


def test_the_jobs_own_topics_are_on_both_brokers(
    kafka: EmbeddedKafkaCluster, share_group_job: ShareGroupJobRun
) -> None:
    topics = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}).list_topics(timeout=60).topics
    replicas = {
        name: {len(partition.replicas) for partition in topics[name].partitions.values()}
        for name in ("__share_group_requests", "__share_partition_requests", "__share_group_responses")
    }
    assert set().union(*replicas.values()) == {2}, replicas
    assert "have one replica" not in share_group_job.log_path.read_text()


def test_a_leader_that_moves_under_a_member(
    kafka: EmbeddedKafkaCluster,
    share_group_job: ShareGroupJobRun,
    gateway: GatewayProcess,
    producer: KafkaProducer,
    new_topic: MakeTopic,
) -> None:
    """From broker 1 to broker 2, and so from one port of the gateway to the other, while the member reads."""
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, 3 * RECORDS))
    partition = TopicPartition(group.topic, 0)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def leader() -> int:
        leader_id: int = admin.list_topics(group.topic, timeout=60).topics[group.topic].partitions[0].leader
        return leader_id

    with group.member(max_poll_records=RECORDS // 2) as member:
        assert leader() == 1
        member.poll_until(lambda: bool(member.deliveries))
        moved = kafka.brokers[-1].admin_client().alter_partition_reassignments({partition: [2]})
        assert moved == {partition: None}
        member.poll_until(lambda: leader() == 2)
        for number in range(RECORDS):
            producer.send(group.topic, b"after %d" % number, partition=0)
        producer.flush()
        member.poll_until(lambda: member.accepted == keys(1, 4 * RECORDS))
        assert sum(value.startswith(b"after ") for value in member.values.values()) == RECORDS
    assert group.await_finished().outcomes == {"accepted": 4 * RECORDS}


def test_a_leader_that_moves_under_members_of_two_gateways(
    kafka: EmbeddedKafkaCluster,
    share_group_job: ShareGroupJobRun,
    gateway: GatewayProcess,
    producer: KafkaProducer,
    new_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    """Each gateway learns of it by itself; what a member holds goes along within its own gateway."""
    with GatewayProcess(share_group_job.config_path, tmp_path / "second.log") as second:
        group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, 4 * RECORDS))
        admin = AdminClient({"bootstrap.servers": second.bootstrap_servers})

        def leader() -> int:
            leader_id: int = admin.list_topics(group.topic, timeout=60).topics[group.topic].partitions[0].leader
            return leader_id

        few = {"max_poll_records": RECORDS // 2}
        with group.member(**few) as one, Member(second.bootstrap_servers, group.id, group.topic, **few) as two:
            poll_in_turns([one, two], lambda: bool(one.deliveries and two.deliveries))
            kafka.brokers[-1].admin_client().alter_partition_reassignments({TopicPartition(group.topic, 0): [2]})
            poll_in_turns([one, two], lambda: leader() == 2)
            for number in range(RECORDS):
                producer.send(group.topic, b"after %d" % number, partition=0)
            producer.flush()
            poll_in_turns([one, two], lambda: one.accepted | two.accepted == keys(1, 5 * RECORDS))
        assert group.await_finished().outcomes == {"accepted": 5 * RECORDS}
        assert second.terminate() == 0
