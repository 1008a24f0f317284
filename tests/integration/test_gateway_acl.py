"""What an access control list allows at a gateway, and what it refuses, told to clients that no one here wrote."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from sharegroup.security.authentication.credentials import hash_password
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.integration.java_tool import tool_command
from tests.integration.lone_gateway import check_end, lone_gateway
from tests.integration.waiting import PATIENCE_S, wait_until
from tests.self_signed import make_pems

ORDERS, CARDS, ELSEWHERE, ROWS = "acl-orders", "acl-orders-cards", "acl-elsewhere", "acl-rows-of-the-job"
#: Where the job would have its rows.
JOB = {"share.group.responses.topic": ROWS}
SHOP, READER, ADMIN = "shop", "reader", "admin"
ACL: list[dict[str, object]] = [
    {"principal": "User:shop", "resource": "topic", "name": ORDERS, "operations": ["Write"]},
    {"principal": "User:shop", "resource": "transactional_id", "prefix": "shop-", "operations": ["Write"]},
    {"principal": "User:reader", "resource": "topic", "prefix": "acl-", "operations": ["Read"]},
    {"principal": "User:reader", "resource": "topic", "name": CARDS, "operations": ["Read"], "permission": "Deny"},
    {"principal": "User:reader", "resource": "group", "prefix": "acl-readers", "operations": ["Read"]},
    {"principal": "User:elsewhere", "host": "10.9.8.7", "resource": "topic", "name": "*", "operations": ["All"]},
    *({"principal": "User:admin", "resource": kind, "name": "*", "operations": ["All"]} for kind in ("topic", "group")),
    {"principal": "User:admin", "resource": "cluster", "operations": ["All"]},
    {
        "principal": r"User:CN=localhost,O=Share\, Group,C=DE",
        "resource": "topic",
        "name": ORDERS,
        "operations": ["Write"],
    },
]


@pytest.fixture(scope="module")
def topics(kafka: EmbeddedKafka) -> None:
    for name in (ORDERS, CARDS, ELSEWHERE, ROWS):
        kafka.create_topic(name)


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = make_pems(tmp_path_factory.mktemp("acl"))
    lines = "\n".join(hash_password(user, "secret") for user in (SHOP, READER, ADMIN, "elsewhere"))
    (directory / "users.yaml").write_text(lines, encoding="utf-8")
    (directory / "acl.yaml").write_text(yaml.safe_dump(ACL), encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def gateway(
    kafka: EmbeddedKafka, topics: None, lists: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    keys = {
        "gateway_sasl_users_location": str(lists / "users.yaml"),
        "gateway_acls_location": str(lists / "acl.yaml"),
    }
    directory = tmp_path_factory.mktemp("acl-gateway")
    with lone_gateway(directory, kafka.bootstrap_servers, job=JOB, **keys) as process:
        yield process
        check_end(process)


@pytest.fixture(scope="module")
def open_gateway(
    kafka: EmbeddedKafka, topics: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """Without a list."""
    with lone_gateway(tmp_path_factory.mktemp("open-gateway"), kafka.bootstrap_servers, job=JOB) as process:
        yield process


def login(gateway: GatewayProcess, user: str, **settings: Any) -> dict[str, Any]:
    """confluent-kafka's settings; more of them with _ for dots."""
    return {
        "bootstrap.servers": gateway.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": "secret",
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def python_login(gateway: GatewayProcess, user: str) -> dict[str, Any]:
    """kafka-python's settings."""
    return {
        "bootstrap_servers": gateway.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": "secret",
    }


def java_login(gateway: GatewayProcess, user: str, directory: Path) -> tuple[str, ...]:
    """Arguments of Kafka's tools."""
    path = directory / f"{user}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="secret";\n'
    )
    return "--bootstrap-server", gateway.bootstrap_servers, "--command-config", str(path)


def java(tool: str, *arguments: str, stdin: str = "") -> str:
    """What one of Kafka's tools says."""
    run = subprocess.run(
        tool_command(tool, arguments), capture_output=True, text=True, timeout=PATIENCE_S, input=stdin, check=False
    )
    return run.stdout + run.stderr


def delivered(settings: dict[str, Any], topic: str) -> int:
    """The error code of a record's delivery, 0 for none."""
    codes: list[int] = []
    producer = Producer(settings)
    producer.produce(topic, b"record", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
    assert producer.flush(60) == 0
    (code,) = codes
    return code


def refusal(future: Future[Any]) -> int:
    """The error code of what an administrator is answered."""
    with pytest.raises(KafkaException) as refused:
        future.result(60)
    return int(refused.value.args[0].code())


# -- producers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"enable_idempotence": True}], ids=["plain", "idempotent"])
def test_a_producer_needs_write_on_its_topic_and_no_more(gateway: GatewayProcess, settings: dict[str, Any]) -> None:
    shop = login(gateway, SHOP, **settings)
    assert delivered(shop, ORDERS) == 0
    assert delivered(shop, ELSEWHERE) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_another_address_is_another_right(gateway: GatewayProcess) -> None:
    assert delivered(login(gateway, "elsewhere"), ORDERS) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_producer_of_kafka_python(gateway: GatewayProcess) -> None:
    producer = KafkaProducer(**python_login(gateway, SHOP), max_block_ms=60_000)
    try:
        assert producer.send(ORDERS, b"record").get(60).topic == ORDERS
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send(ELSEWHERE, b"record").get(60)
    finally:
        producer.close()


def test_transactions_by_their_ids(gateway: GatewayProcess) -> None:
    mine = Producer(login(gateway, SHOP, transactional_id="shop-1"))
    mine.init_transactions(60)
    mine.begin_transaction()
    mine.produce(ORDERS, b"record")
    mine.commit_transaction(60)
    others = Producer(login(gateway, SHOP, transactional_id="bank-1"))
    with pytest.raises(KafkaException) as refused:
        others.init_transactions(60)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_javas_producer(gateway: GatewayProcess, lists: Path) -> None:
    tool = "org.apache.kafka.tools.ConsoleProducer"
    for topic in (ORDERS, ELSEWHERE):
        said = java(tool, *java_login(gateway, SHOP, lists), "--topic", topic, stdin="record\n")
        is_refused = "TopicAuthorizationException" in said or "Not authorized to access topics" in said
        assert is_refused is (topic == ELSEWHERE), said


def test_a_clients_certificate_is_who_it_is(
    kafka: EmbeddedKafka, topics: None, lists: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pem, key = str(lists / "cert.pem"), str(lists / "key.pem")
    keys = {
        "gateway_ssl_certificate_location": pem,
        "gateway_ssl_key_location": key,
        "gateway_ssl_client_ca_location": pem,
        "gateway_acls_location": str(lists / "acl.yaml"),
    }
    with lone_gateway(tmp_path_factory.mktemp("certificates"), kafka.bootstrap_servers, job=JOB, **keys) as process:
        settings = {
            "bootstrap.servers": process.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": pem,
            "ssl.certificate.location": pem,
            "ssl.key.location": key,
            "log_level": 0,
        }
        assert delivered(settings, ORDERS) == 0
        assert delivered(settings, ELSEWHERE) == KafkaError.TOPIC_AUTHORIZATION_FAILED


# -- consumers -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records(kafka: EmbeddedKafka, topics: None) -> None:
    """One record in each topic."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for name in (ORDERS, CARDS, ROWS):
        producer.send(name, b"record").get(30)
    producer.close()


def consumed(settings: dict[str, Any], topic: str, group_id: str, protocol: str = "classic") -> int:
    """0 when a record comes, or the error code that does in its place."""
    consumer = Consumer({**settings, "group.id": group_id, "auto.offset.reset": "earliest", "group.protocol": protocol})
    found: list[Any] = []

    def is_told() -> bool:
        try:
            message = consumer.poll(1)
        except KafkaException as error:
            found.append(error.args[0].code())
        else:
            if message is not None:
                found.append(message.error().code() if message.error() else 0)
        return bool(found)

    try:
        consumer.subscribe([topic])
        wait_until(is_told, "the consumer is told something", 60)
    finally:
        consumer.close()
    return int(found[0])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_needs_read_on_its_topic_and_its_group(
    gateway: GatewayProcess, records: None, protocol: str
) -> None:
    reader = login(gateway, READER)
    assert consumed(reader, ORDERS, f"acl-readers-{protocol}", protocol) == 0
    assert consumed(reader, ORDERS, f"acl-others-{protocol}", protocol) == KafkaError.GROUP_AUTHORIZATION_FAILED


def test_what_is_denied_wins_over_the_prefix_that_allows(gateway: GatewayProcess, records: None) -> None:
    assert consumed(login(gateway, READER), CARDS, "acl-readers-of-cards") == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_consumer_of_kafka_python(gateway: GatewayProcess, records: None) -> None:
    reading = {"auto_offset_reset": "earliest", "consumer_timeout_ms": PATIENCE_S * 1000}
    settings = {**python_login(gateway, READER), **reading}
    for group_id, error in (("acl-readers-in-python", None), ("acl-others", GroupAuthorizationFailedError)):
        consumer = KafkaConsumer(ORDERS, group_id=group_id, **settings)
        try:
            if error is None:
                assert len(list(islice(consumer, 1))) == 1
                consumer.commit()
            else:
                with pytest.raises(error):
                    next(consumer)
        finally:
            consumer.close()


def test_one_of_two_topics_is_read(gateway: GatewayProcess, records: None) -> None:
    """In one Fetch: the refused one has its error, and the other its records."""
    consumer = Consumer(login(gateway, READER, group_id="acl-readers-both", enable_auto_commit=False))
    found: dict[str, int] = {}

    def both_are_told() -> bool:
        message = consumer.poll(1)
        if message is not None:
            found[message.topic()] = message.error().code() if message.error() else 0
        return len(found) == 2

    try:
        consumer.assign([TopicPartition(name, 0, 0) for name in (ORDERS, CARDS)])
        wait_until(both_are_told, "both topics are told of", 60)
    finally:
        consumer.close()
    assert found == {ORDERS: 0, CARDS: KafkaError.TOPIC_AUTHORIZATION_FAILED}


# -- administrators --------------------------------------------------------------------------------------------------


def test_who_may_write_administers_nothing(gateway: GatewayProcess, kafka: EmbeddedKafka) -> None:
    """What anybody with a password could do before: with the gateway's own rights at the brokers."""
    shop = AdminClient(login(gateway, SHOP))
    assert refusal(shop.delete_topics([ELSEWHERE], request_timeout=PATIENCE_S)[ELSEWHERE]) == (
        KafkaError.TOPIC_AUTHORIZATION_FAILED
    )
    assert refusal(shop.create_topics([NewTopic("acl-made", 1, 1)], request_timeout=PATIENCE_S)["acl-made"]) == (
        KafkaError.TOPIC_AUTHORIZATION_FAILED
    )
    root = UserScramCredentialUpsertion("root", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096), b"secret")
    assert refusal(shop.alter_user_scram_credentials([root])["root"]) == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    topic = ConfigResource(ConfigResource.Type.TOPIC, ORDERS)
    assert refusal(shop.describe_configs([topic])[topic]) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert refusal(shop.describe_consumer_groups(["acl-readers-classic"])["acl-readers-classic"]) == (
        KafkaError.GROUP_AUTHORIZATION_FAILED
    )
    end = shop.list_offsets({TopicPartition(ORDERS, 0): OffsetSpec.latest()}, request_timeout=PATIENCE_S)
    assert end[TopicPartition(ORDERS, 0)].result(PATIENCE_S).offset >= 0  # Write implies Describe
    assert set(shop.list_topics(timeout=PATIENCE_S).topics) == {ORDERS}
    assert {ELSEWHERE, ORDERS} <= set(kafka.topics())
    assert "acl-made" not in kafka.topics()


def test_who_may_do_everything_does(
    gateway: GatewayProcess, kafka: EmbeddedKafka, unique_name: Callable[[str], str]
) -> None:
    admin = AdminClient(login(gateway, ADMIN))
    name = unique_name("acl-made")
    admin.create_topics([NewTopic(name, 1, 1)], request_timeout=PATIENCE_S)[name].result(PATIENCE_S)
    wait_until(lambda: name in admin.list_topics(timeout=PATIENCE_S).topics, "the topic is there")
    admin.delete_topics([name], request_timeout=PATIENCE_S)[name].result(PATIENCE_S)
    wait_until(lambda: name not in kafka.topics(), "the topic is gone")


def test_javas_administrator(gateway: GatewayProcess, lists: Path) -> None:
    """DescribeTopicPartitions and DescribeConfigs: who may write a topic may describe it, and not its configs."""
    tool, shop = "org.apache.kafka.tools.TopicCommand", java_login(gateway, SHOP, lists)
    assert ORDERS in (said := java(tool, *shop, "--list"))
    assert ELSEWHERE not in said
    refused = java(tool, *shop, "--create", "--topic", "acl-made", "--partitions", "1", "--replication-factor", "1")
    assert "Authorization failed" in refused
    assert "acl-made" not in java(tool, *java_login(gateway, ADMIN, lists), "--list")


# -- the job's own topics --------------------------------------------------------------------------------------------


def test_the_jobs_topics_are_nobodys(gateway: GatewayProcess, open_gateway: GatewayProcess, records: None) -> None:
    for settings in (
        login(gateway, ADMIN),
        {"bootstrap.servers": open_gateway.bootstrap_servers, "log_level": 0},
    ):
        admin = AdminClient(settings)
        topics = admin.list_topics(timeout=PATIENCE_S).topics
        assert ORDERS in topics
        assert ROWS not in topics
        patient = {**settings, "message.timeout.ms": PATIENCE_S * 1000}
        assert delivered(patient, ROWS) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert consumed(settings, ROWS, "acl-readers-of-rows") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        deleted = admin.delete_topics([ROWS], request_timeout=PATIENCE_S)[ROWS]
        assert refusal(deleted) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        configs = ConfigResource(ConfigResource.Type.TOPIC, ROWS)
        assert refusal(admin.describe_configs([configs])[configs]) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_without_a_list_everybody_may_do_the_rest(open_gateway: GatewayProcess, records: None) -> None:
    settings = {"bootstrap.servers": open_gateway.bootstrap_servers, "log_level": 0}
    assert delivered(settings, ELSEWHERE) == 0
    assert consumed(settings, ORDERS, "acl-anybody") == 0
