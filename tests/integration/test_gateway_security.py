"""TLS, logins and an access control list, with clients that no one here wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from sharegroup.config import parse_config
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.kafka_clients.kafka_clients import KafkaRowProducer
from sharegroup.kafka_clients.row_topics.job_topics import UnfitTopicsError, create_topics
from sharegroup.kafka_clients.row_topics.row_channel import RowChannel, RowTopics
from sharegroup.protocol.rows.response_rows import Response, encode_response
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.security.authentication.credentials import hash_password
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.integration.conftest import NewTopic as MakeTopic
from tests.integration.lone_gateway import lone_gateway
from tests.integration.secured_clients import CERTIFIED, MTLS, OAUTHBEARER, PASSWORDS, Secrets
from tests.integration.waiting import PATIENCE_S, wait_until
from tests.self_signed import make_pems

ACL = [
    {"principal": "User:admin", "resource": "cluster", "operations": ["All"]},
    {"principal": "User:admin", "resource": "topic", "name": "*", "operations": ["All"]},
    {"principal": "User:reader", "resource": "topic", "prefix": "topic-test_a_reader", "operations": ["Read"]},
]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = make_pems(tmp_path_factory.mktemp("gateway-secrets"))
    users = "\n".join(hash_password(user, f"{user}'s secret") for user in ("admin", "reader"))
    (directory / "users.yaml").write_text(users, encoding="utf-8")
    (directory / "acl.yaml").write_text(yaml.safe_dump(ACL), encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def gateway(kafka: EmbeddedKafka, secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("secured-gateway")
    keys = {
        "gateway_ssl_certificate_location": str(secrets / "cert.pem"),
        "gateway_ssl_key_location": str(secrets / "key.pem"),
        "gateway_sasl_users_location": str(secrets / "users.yaml"),
        "gateway_acls_location": str(secrets / "acl.yaml"),
    }
    with lone_gateway(directory, kafka.bootstrap_servers, **keys) as process:
        yield process
        assert process.terminate() == 0
        assert "Traceback" not in process.log_path.read_text()


class Login:
    """The settings of a client, and what it said when it could not connect."""

    def __init__(self, gateway: GatewayProcess, secrets: Path, user: str, mechanism: str, password: str) -> None:
        self.errors: list[KafkaError] = []
        self.settings = {
            "bootstrap.servers": gateway.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(secrets / "cert.pem"),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "error_cb": self.errors.append,
            "log_level": 0,
        }


def partitions(admin: AdminClient, topic: str) -> int:
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    return len(topics[topic].partitions) if topic in topics else 0


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_login_over_tls(gateway: GatewayProcess, secrets: Path, mechanism: str) -> None:
    login = Login(gateway, secrets, "admin", mechanism, "admin's secret")
    admin = AdminClient(login.settings)
    name = f"made-over-{mechanism.lower()}"
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(PATIENCE_S)
    wait_until(lambda: partitions(admin, name) == 2, "the broker learns of the topic")
    producer = Producer(login.settings)
    producer.produce(name, b"record")
    assert producer.flush(30) == 0
    assert not login.errors


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_that_knows_no_sasl_authenticate(gateway: GatewayProcess, secrets: Path, mechanism: str) -> None:
    """kafka-python told to be one of before Kafka 1.0: SaslHandshake 0, and the mechanism's messages bare."""
    consumer = KafkaConsumer(
        bootstrap_servers=gateway.bootstrap_servers,
        api_version=(0, 10, 2),
        security_protocol="SASL_SSL",
        ssl_cafile=str(secrets / "cert.pem"),
        ssl_check_hostname=False,
        sasl_mechanism=mechanism,
        sasl_plain_username="admin",
        sasl_plain_password="admin's secret",
    )
    try:
        admin = AdminClient(Login(gateway, secrets, "admin", mechanism, "admin's secret").settings)
        internal = {"__consumer_offsets", "__transaction_state"}  # topics() leaves these out
        assert consumer.topics() == admin.list_topics(timeout=PATIENCE_S).topics.keys() - internal
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", [*PASSWORDS, OAUTHBEARER, MTLS])
def test_kafka_python(
    kafka: EmbeddedKafka, mechanism: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It looks at the topics, as whoever it has logged in as; nobody else sees them."""
    principal = CERTIFIED if mechanism == MTLS else "User:carol"
    acl = [{"principal": principal, "resource": "topic", "name": "seen-by-carol", "operations": ["Describe"]}]
    own = Secrets(tmp_path_factory.mktemp("carols-secrets"), ("carol",), acl)
    keys = {name.replace(".", "_"): value for name, value in own.gateway(mechanism).items()}
    if "seen-by-carol" not in kafka.topics():
        kafka.create_topic("seen-by-carol")
    alone = {"share.group.responses.topic": "no-other-gateway"}  # whose certificate would be another
    with lone_gateway(tmp_path, kafka.bootstrap_servers, job=alone, **keys) as gateway:
        consumer = KafkaConsumer(bootstrap_servers=gateway.bootstrap_servers, **own.kafka_python("carol", mechanism))
        try:
            assert consumer.topics() == {"seen-by-carol"}
        finally:
            consumer.close()


def test_the_clients_of_the_job_log_in_over_tls(gateway: GatewayProcess, secrets: Path, kafka: EmbeddedKafka) -> None:
    """By the properties that Spark's reader wants, which is Java's; the gateway is the secured cluster here."""
    properties = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secrets / "cert.pem"),
        "ssl.endpoint.identification.algorithm": "",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'x.PlainLoginModule required username="admin" password="admin\'s secret";',
        "request.timeout.ms": "20000",
        "linger.ms": "5",
        "isolation.level": "read_committed",
    }
    config = parse_config({"job": {"bootstrap.servers": gateway.bootstrap_servers, "kafka": properties}}, "test")
    settings = python_properties(config.job.bootstrap_servers, config.job.kafka)
    topics = RowTopics("secured-group-requests", "secured-partition-requests", "secured-responses")
    for _ in ("they are made", "they are looked at"):
        create_topics(settings, dict.fromkeys(topics, 1), 1, 60_000, timed=topics[:2])
    kafka.create_topic(unfit := "secured-by-create-time")
    with pytest.raises(UnfitTopicsError, match="CreateTime"):
        create_topics(settings, {unfit: 1}, 1, 60_000, timed=[unfit])
    channel = RowChannel(settings, topics, reply_to="me")
    response = FetchResponse("r1", "me", "g", "orders", "orders-0123456789abcde", 0, "m")
    try:
        assert channel.open()
        producer = KafkaRowProducer(settings, topics.responses, topics.share_group_requests)
        producer.send([encode_response(response)], [("g", "{}")])
        producer.close()
        received: list[Response] = []
        while not received:
            received = channel.poll(1_000)
        assert received == [response]
        assert channel.topics_metadata(["secured-responses", "missing"])["secured-responses"].partitions == 1
    finally:
        channel.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["admin", "nobody"])
def test_a_wrong_password_is_told(gateway: GatewayProcess, secrets: Path, user: str, mechanism: str) -> None:
    login = Login(gateway, secrets, user, mechanism, "guessed")
    admin = AdminClient(login.settings)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)

    def is_told() -> bool:
        admin.poll(0.1)
        return KafkaError._AUTHENTICATION in [error.code() for error in login.errors]

    wait_until(is_told, "the client is told why", 60)


def test_without_tls_nobody_comes_in(gateway: GatewayProcess) -> None:
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": gateway.bootstrap_servers, "log_level": 0}).list_topics(timeout=3)


def test_a_reader_sees_his_topics_and_makes_none(
    gateway: GatewayProcess, secrets: Path, new_topic: MakeTopic, kafka: EmbeddedKafka
) -> None:
    topic = new_topic(partitions=3)
    kafka.create_topic(hidden := f"hidden-{topic}")
    reader = AdminClient(Login(gateway, secrets, "reader", "SCRAM-SHA-512", "reader's secret").settings)
    topics = reader.list_topics(timeout=PATIENCE_S).topics
    assert topic in topics
    assert hidden not in topics
    assert len(topics[topic].partitions) == 3
    of_hidden = reader.list_topics(hidden, timeout=PATIENCE_S).topics[hidden]
    assert of_hidden.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    another = f"{topic}-too"
    with pytest.raises(KafkaException) as refused:
        reader.create_topics([NewTopic(another, 1, 1)], request_timeout=PATIENCE_S)[another].result(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert another not in kafka.topics()
