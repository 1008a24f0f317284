"""Topics with records in them, and the tables read back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaProducer

from tests.integration.waiting import PATIENCE_S
from tests.params import thorough

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sharegroup.kafka_clients.admin import ShareGroupAdmin
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.event_loop import EventLoop
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.client_groups import NewGroup
    from tests.integration.served import Served
    from tests.processes.served_clients import Serve

NewTopic = Callable[..., str]


@pytest.fixture(scope="session")
def gateway_metrics_port() -> int:
    """Where `gateway` shows its metrics."""
    from sharegroup.testing.ports import free_port

    return free_port()


@pytest.fixture(scope="session")
def gateway(
    share_group_job: ShareGroupJobRun, gateway_metrics_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """A gateway to the main job, for all tests that leave it running."""
    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.integration.lone_gateway import check_end

    log_path = tmp_path_factory.mktemp("gateway") / "gateway.log"
    shown = [f"--metrics-port={gateway_metrics_port}"]
    with GatewayProcess(share_group_job.config_path, log_path, options=shown) as process:
        yield process
        check_end(process)


@pytest.fixture
def serve(loop: EventLoop, kafka: EmbeddedKafka) -> Iterator[Serve]:
    """Return a function that serves a gateway with these keys in the test's process until the end of the test."""
    from tests.integration.lone_gateway import serving

    with loop.entering(partial(serving, kafka.bootstrap_servers)) as serve:
        yield serve


@pytest.fixture(scope="session")
def kafka_with_share_groups() -> Iterator[EmbeddedKafka]:
    """A broker whose own share groups are compared with ours."""
    from sharegroup.testing.embedded_kafka import EmbeddedKafka

    with EmbeddedKafka() as broker:
        yield broker


@pytest.fixture(scope="session")
def newer_kafka_with_share_groups() -> Iterator[EmbeddedKafka]:
    """The same with Kafka 4.4."""
    from sharegroup.testing.embedded_kafka import EmbeddedKafka

    with EmbeddedKafka(version="4.4") as broker:
        yield broker


#: The fixture of the broker by the name of the server, where Kafka itself is the server.
_BROKERS = {"kafka": "kafka_with_share_groups", "kafka-4.4": "newer_kafka_with_share_groups"}


_SERVERS = (
    "gateway",
    *thorough("kafka"),
    pytest.param("kafka-4.4", marks=pytest.mark.long),
)


@pytest.fixture(params=_SERVERS)
def served(request: pytest.FixtureRequest) -> Served:
    """Our gateway, and Kafka's own share groups in two releases.

    `make test` runs each test against the gateway, `make test-all` against Kafka, and `make clients` against the newer
    release of Kafka.
    """
    from tests.integration.served import Served

    if request.param in _BROKERS:
        broker = request.getfixturevalue(_BROKERS[request.param])
        return Served(False, broker.bootstrap_servers, broker)
    bootstrap_servers = request.getfixturevalue("gateway").bootstrap_servers
    return Served(True, bootstrap_servers, request.getfixturevalue("kafka"))


@pytest.fixture
def admin(served: Served) -> Iterator[ShareGroupAdmin]:
    """An administrator of the server that is tested."""
    from sharegroup.kafka_clients.admin import ShareGroupAdmin

    with ShareGroupAdmin(served.bootstrap_servers, timeout_ms=PATIENCE_S * 1000) as client:
        yield client


@pytest.fixture
def new_client_group(admin: ShareGroupAdmin, served: Served, unique_name: Callable[[str], str]) -> NewGroup:
    """`new_client_group(partitions, records, **configs)` makes a topic and a group that reads it from the start."""

    from tests.integration.client_groups import Group

    def make(partitions: int = 1, records: int = 0, **configs: str) -> Group:
        group_id, topic = unique_name("group"), served.new_topic(unique_name("topic"), partitions, records)
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        admin.alter_group_configs(group_id, {"share.auto.offset.reset": "earliest", **dotted})
        return Group(served, group_id, topic)

    return make


@pytest.fixture
def producer(kafka: EmbeddedKafka) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    yield producer
    producer.close()


@pytest.fixture
def new_topic(kafka: EmbeddedKafka, producer: KafkaProducer, unique_name: Callable[[str], str]) -> NewTopic:
    """`new_topic(partitions, records)` makes a topic with that many records in each partition; its name."""

    def make(partitions: int = 1, records: int = 0) -> str:
        topic = unique_name("topic")
        kafka.create_topic(topic, partitions)
        for partition in range(partitions):
            for number in range(records):
                producer.send(topic, b"record %d" % number, partition=partition)
        producer.flush()
        return topic

    return make
