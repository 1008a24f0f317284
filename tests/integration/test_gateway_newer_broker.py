"""A broker of Kafka 4.4, which has share groups of its own, behind a job and a gateway.

The fixtures have the names of those for a broker of 4.3, so that the tests that are imported run on this broker. The
same name is used for a consumer group and for a share group, in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException
from kafka import TopicPartition

from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.lone_gateway import check_end
from tests.integration.served import Served
from tests.integration.share_members import Group, keys
from tests.integration.test_gateway_group_kinds import assigned_member
from tests.integration.test_gateway_share_consumer import (  # noqa: F401 - collected here
    new_group,
    test_explicit_acknowledgement,
    test_members_share_a_partition,
    test_read_committed,
)
from tests.integration.test_one_kind_of_group import (  # noqa: F401 - collected here
    consumer_of,
    join_error,
    test_no_consumer_group_has_the_name_of_a_share_group,
    test_no_share_group_has_the_name_of_a_consumer_group,
)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(version="4.4") as broker:
        yield broker


@pytest.fixture(scope="module")
def share_group_job(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareGroupJobRun]:
    with ShareGroupJobRun(tmp_path_factory.mktemp("newer-job"), kafka.bootstrap_servers) as job:
        job.start_warm(kafka.create_topic)
        yield job


@pytest.fixture(scope="module")
def gateway(share_group_job: ShareGroupJobRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(share_group_job.config_path, tmp_path_factory.mktemp("newer") / "gateway.log") as process:
        yield process
        check_end(process)


@pytest.fixture
def served(kafka: EmbeddedKafka, gateway: GatewayProcess) -> Served:
    return Served(True, gateway.bootstrap_servers, kafka)


def test_a_share_consumer_keeps_its_group_from_consumers(
    share_group_job: ShareGroupJobRun, served: Served, admin: ShareGroupAdmin, unique_name: Callable[[str], str]
) -> None:
    """The group is made by its member, and consumers of both protocols are refused while it reads."""
    topic = served.new_topic(unique_name("topic"), 1, 5)
    group = Group(share_group_job, served.bootstrap_servers, topic)
    with group.member() as member:
        member.poll_until(lambda: bool(member.deliveries))
        for protocol in ("classic", "consumer"):
            consumer = consumer_of(served, group.id, protocol)
            assert join_error(consumer, topic)
            consumer.close()
        member.poll_until(lambda: member.accepted == keys(1, 5))
    assert [row.group_type for row in admin.list_groups(types=()) if row.group_id == group.id] == ["share"]
    assert admin.alter_group_offsets(group.id, {TopicPartition(topic, 0): 1}) == {TopicPartition(topic, 0): None}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_keeps_its_group_from_share_consumers(
    gateway: GatewayProcess, served: Served, admin: ShareGroupAdmin, unique_name: Callable[[str], str], protocol: str
) -> None:
    topic, group_id = served.new_topic(unique_name("topic"), 1, 5), unique_name(protocol)
    with (
        assigned_member(gateway, group_id, topic, protocol),
        served.member(group_id, topic) as member,
        pytest.raises(KafkaException, match="group id does not exist"),
    ):
        member.poll_until(lambda: bool(member.deliveries))
    assert [row.group_type for row in admin.list_groups(types=()) if row.group_id == group_id] == [protocol]
