"""The key `kafka`: properties of all clients, properties of Java clients, and invalid properties."""

from collections.abc import Mapping

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from sharegroup.config import parse_config
from sharegroup.config.keys.client_properties import PYTHON_PROPERTIES, property_problems
from sharegroup.errors import InvalidConfigError
from sharegroup.kafka_clients.client_settings import python_properties

BOOTSTRAP = {"bootstrap_servers": ["a:1", "b:2"]}


def settings(kafka: Mapping[str, str]) -> dict[str, object]:
    found = python_properties("a:1, b:2", kafka)
    assert {name: found.pop(name) for name in BOOTSTRAP} == BOOTSTRAP
    return found


@pytest.mark.parametrize("client", [KafkaAdminClient, KafkaConsumer, KafkaProducer])
def test_every_kafka_python_client_has_each_setting(client: type) -> None:
    assert {known.name for known in PYTHON_PROPERTIES.values()} <= client.DEFAULT_CONFIG.keys()  # type: ignore[attr-defined]  # all three have it


@pytest.mark.parametrize(
    ("name", "text", "setting"),
    [
        ("client.id", "billing", {"client_id": "billing"}),
        ("client.dns.lookup", "use_all_dns_ips", {"client_dns_lookup": "use_all_dns_ips"}),
        ("request.timeout.ms", "60000", {"request_timeout_ms": 60_000}),
        ("connections.max.idle.ms", "180000", {"connections_max_idle_ms": 180_000}),
        ("metadata.max.age.ms", "5000", {"metadata_max_age_ms": 5_000}),
        ("retry.backoff.ms", "0", {"retry_backoff_ms": 0}),
        ("reconnect.backoff.ms", "10", {"reconnect_backoff_ms": 10}),
        ("reconnect.backoff.max.ms", "10000", {"reconnect_backoff_max_ms": 10_000}),
        ("receive.buffer.bytes", "65536", {"receive_buffer_bytes": 65_536}),
        ("send.buffer.bytes", "-1", {"send_buffer_bytes": None}),
        ("security.protocol", "SASL_SSL", {"security_protocol": "SASL_SSL"}),
        ("sasl.mechanism", "SCRAM-SHA-512", {"sasl_mechanism": "SCRAM-SHA-512"}),
        ("sasl.kerberos.service.name", "broker", {"sasl_kerberos_service_name": "broker"}),
        ("ssl.endpoint.identification.algorithm", "", {"ssl_check_hostname": False}),
        ("ssl.endpoint.identification.algorithm", "https", {"ssl_check_hostname": True}),
        ("ssl.truststore.location", "ca.pem", {"ssl_cafile": "ca.pem"}),
        ("ssl.keystore.location", "me.pem", {"ssl_certfile": "me.pem"}),
        ("ssl.key.password", "secret", {"ssl_password": "secret"}),
        ("ssl.ca.location", "ca.pem", {"ssl_cafile": "ca.pem"}),
        ("ssl.certificate.location", "me.pem", {"ssl_certfile": "me.pem"}),
        ("ssl.key.location", "key.pem", {"ssl_keyfile": "key.pem"}),
    ],
)
def test_a_property_is_translated_for_kafka_python(name: str, text: str, setting: dict[str, object]) -> None:
    assert settings({name: text}) == setting


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ssl.truststore.type", "PEM"),
        ("ssl.truststore.password", "secret"),
        ("ssl.keystore.type", "pem"),
        ("ssl.enabled.protocols", "TLSv1.3"),
        ("sasl.client.callback.handler.class", "x.Y"),
        ("sasl.login.refresh.window.factor", "0.8"),
        ("linger.ms", "5"),
        ("isolation.level", "read_committed"),
        ("max.poll.records", "10"),
        ("fetch.max.wait.ms", "5"),
        ("compression.type", "lz4"),
        ("acks", "1"),
        ("some.plugin.s.own", "x"),
    ],
)
def test_a_property_of_java_alone_is_accepted_and_not_translated(name: str, text: str) -> None:
    assert settings({name: text}) == {}
    assert parse_config({"job": {"kafka": {name: text}}}, "x").job.kafka == {name: text}


def test_user_and_password_are_read_from_jaas_config() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="secret";'
    assert settings({"sasl.jaas.config": jaas}) == {"sasl_plain_username": "me", "sasl_plain_password": "secret"}


def test_a_store_that_only_java_reads_requires_a_pem_file() -> None:
    stores = {"ssl.truststore.type": "JKS", "ssl.truststore.location": "ca.jks", "ssl.truststore.password": "secret"}
    (problem,) = property_problems(stores)
    assert problem.startswith("ssl.truststore.type must be PEM, or ssl.ca.location must be set")
    assert settings(stores | {"ssl.ca.location": "ca.pem"}) == {"ssl_cafile": "ca.pem"}
    assert settings({"ssl.truststore.location": "store.pem", "ssl.ca.location": "ca.pem"}) == {"ssl_cafile": "ca.pem"}
    (problem,) = property_problems({"ssl.keystore.key": "-----BEGIN"})
    assert problem == "ssl.keystore.key is only read by Java clients; set ssl.key.location to a PEM file as well"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("request.timeout.ms", "soon", "request.timeout.ms: Not a whole number from 1000 to 119000"),
        ("request.timeout.ms", "500", "request.timeout.ms: Not a whole number from 1000 to 119000"),
        ("connections.max.idle.ms", "5000", "connections.max.idle.ms: Not a whole number from 120000 to 2147483647"),
        ("security.protocol", "TLS", "security.protocol: Not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (
            "sasl.mechanism",
            "OAUTHBEARER",
            "sasl.mechanism: Not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI, AWS_MSK_IAM",
        ),
        ("sasl.mechanisms", "PLAIN", "Unknown property sasl.mechanisms; the nearest known name is sasl.mechanism"),
        (
            "bootstrap.servers",
            "a:1",
            "bootstrap.servers is not allowed in the key kafka; set the key bootstrap.servers of the section job",
        ),
        ("auto.offset.reset", "latest", "auto.offset.reset must not be set, because the job sets it"),
    ],
)
def test_an_invalid_property_is_rejected(name: str, text: str, problem: str) -> None:
    assert property_problems({name: text}) == [problem]


def test_all_invalid_properties_are_listed_without_their_values() -> None:
    wrong = {"security.protocol": "secret", "ssl.key.password": "secret", "request.timeout.ms": "secret"}
    expected = "security.protocol: Not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; request.timeout.ms: Not a whole"
    with pytest.raises(InvalidConfigError, match=f"Invalid value for configuration kafka: {expected}") as caught:
        parse_config({"job": {"kafka": wrong, "operator.shards": 0}}, "x")
    assert "secret" not in str(caught.value)
    assert len(caught.value.problems) == 2
    with pytest.raises(InvalidConfigError, match="Kafka client properties: 2 wrong"):
        python_properties("a:1", wrong)
