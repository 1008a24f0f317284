"""Clients who act at the brokers as themselves: the brokers' users, tokens and access control list hold, no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType
from kafka import KafkaProducer

from sharegroup.testing.gateway_process import GatewayProcess
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.command_line import run
from tests.integration.java_tool import run_tool
from tests.integration.secured_broker import SecuredBroker, login_of_gateway, secured_broker
from tests.integration.secured_clients import OAUTHBEARER, Secrets
from tests.integration.share_members import Group, Member, keys, once
from tests.integration.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.thorough

ALICE, MALLORY = "alice", "mallory"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
MECHANISMS = ("PLAIN", OAUTHBEARER)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    return Secrets(tmp_path_factory.mktemp("acting-secrets"), (), ())


@pytest.fixture(scope="module")
def broker(secrets: Secrets) -> Iterator[SecuredBroker]:
    with secured_broker(secrets, (ALICE, MALLORY)) as started:
        yield started


@pytest.fixture(scope="module")
def job(broker: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareGroupJobRun]:
    directory = tmp_path_factory.mktemp("acting-clients")
    with ShareGroupJobRun(directory, broker.kafka.bootstrap_servers, master="local[1]") as run:
        run.start()
        run.await_running()
        yield run


@pytest.fixture(scope="module")
def gateway(
    job: ShareGroupJobRun, broker: SecuredBroker, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("acting-gateway")
    config = yaml.safe_load(job.config_path.read_text())
    config["job"] |= {"bootstrap.servers": broker.bootstrap_servers, "kafka": login_of_gateway()}
    config["gateway"] = {
        "gateway.upstream.identity": "client",
        "gateway.ssl.certificate.location": secrets.path("cert.pem"),
        "gateway.ssl.key.location": secrets.path("key.pem"),
    }
    (directory / "gateway.yaml").write_text(yaml.safe_dump(config))
    with GatewayProcess(directory / "gateway.yaml", directory / "gateway.log") as process:
        yield process
        assert process.terminate() == 0
        errors = [line for line in process.log_path.read_text().splitlines() if " ERROR " in line]
        # kafka-python says so of a connection that ends while it is waited for; it makes another one.
        assert [line for line in errors if "Invalid file descriptor" not in line] == []


@pytest.fixture
def topic(broker: SecuredBroker, unique_name: Callable[[str], str]) -> str:
    """With ten records; nobody has rights to it yet."""
    name = unique_name("topic")
    broker.kafka.create_topic(name)
    producer = KafkaProducer(bootstrap_servers=broker.kafka.bootstrap_servers)
    for number in range(10):
        producer.send(name, b"record %d" % number)
    producer.close()
    return name


def client(gateway: GatewayProcess, secrets: Secrets, user: str, mechanism: str = "PLAIN") -> dict[str, object]:
    return {"bootstrap.servers": gateway.bootstrap_servers, "log_level": 0, **secrets.librdkafka(user, mechanism)}


def login(secrets: Secrets, user: str, mechanism: str = "PLAIN", **more: int) -> dict[str, object]:
    """A member's settings."""
    return {key.replace(".", "_"): value for key, value in secrets.librdkafka(user, mechanism, **more).items()}


def allow_reading(broker: SecuredBroker, user: str, group: Group) -> None:
    broker.allow(user, ResourceType.TOPIC, group.topic, AclOperation.READ)
    broker.allow(user, ResourceType.GROUP, group.id, AclOperation.READ)


def test_the_brokers_judge_a_login(gateway: GatewayProcess, secrets: Secrets) -> None:
    said: list[KafkaError] = []
    guess = {**client(gateway, secrets, ALICE), "sasl.password": "a guess", "error_cb": said.append}
    admin = AdminClient(guess)
    wait_until(lambda: admin.poll(0.1) is not None and bool(said), "the login is refused")
    assert said[0].code() == KafkaError._AUTHENTICATION
    line = next(line for line in gateway.log_path.read_text().splitlines() if "login outcome=refused" in line)
    assert f"claimed={ALICE}" in line
    assert "a guess" not in gateway.log_path.read_text()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_passes_through_has_the_clients_rights(
    gateway: GatewayProcess, broker: SecuredBroker, secrets: Secrets, topic: str, mechanism: str
) -> None:
    broker.allow(ALICE, ResourceType.TOPIC, topic, AclOperation.WRITE)
    told: list[KafkaError | None] = []
    for user in (ALICE, MALLORY):
        producer = Producer(client(gateway, secrets, user, mechanism))
        producer.produce(topic, b"one more", on_delivery=lambda error, _: told.append(error))
        assert producer.flush(60) == 0
    assert told[0] is None
    assert told[1] is not None
    assert told[1].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    alice, mallory = (AdminClient(client(gateway, secrets, user, mechanism)) for user in (ALICE, MALLORY))
    assert topic in alice.list_topics(timeout=30).topics
    assert topic not in mallory.list_topics(timeout=30).topics
    with pytest.raises(KafkaException) as refused:
        mallory.create_topics([NewTopic("mine", 1)])["mine"].result(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_share_consumer(
    gateway: GatewayProcess, broker: SecuredBroker, secrets: Secrets, job: ShareGroupJobRun, topic: str, mechanism: str
) -> None:
    group = Group(job, gateway.bootstrap_servers, topic)
    allow_reading(broker, ALICE, group)
    with group.member(**login(secrets, MALLORY, mechanism)) as stranger:
        with pytest.raises(KafkaException) as refused:
            stranger.poll_until(lambda: False)
        assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    with group.member(**login(secrets, ALICE, mechanism)) as member:
        member.poll_until(lambda: member.accepted == keys(1, 10))
        assert once(member)
    assert group.await_finished().outcomes == {"accepted": 10}


def test_a_right_that_is_given_counts_soon(
    gateway: GatewayProcess, broker: SecuredBroker, secrets: Secrets, job: ShareGroupJobRun, topic: str
) -> None:
    """To the group first: the topic is refused while it is not to be read, and no record is lost by that."""
    group = Group(job, gateway.bootstrap_servers, topic)
    broker.allow(MALLORY, ResourceType.GROUP, group.id, AclOperation.READ)
    with group.member(**login(secrets, MALLORY)) as early:
        with pytest.raises(KafkaException) as refused:
            early.poll_until(lambda: False)
        assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    broker.allow(MALLORY, ResourceType.TOPIC, topic, AclOperation.READ)

    def reads() -> bool:
        with Member(gateway.bootstrap_servers, group.id, topic, **login(secrets, MALLORY)) as member:
            try:
                member.poll_until(lambda: member.accepted == keys(1, 10))
            except KafkaException:
                return False
            return once(member)

    wait_until(reads, "the right counts")


def test_a_member_outlives_its_tokens(
    gateway: GatewayProcess, broker: SecuredBroker, secrets: Secrets, job: ShareGroupJobRun, topic: str
) -> None:
    """Their end is the brokers' to say (KIP-368); the share session goes on."""
    group = Group(job, gateway.bootstrap_servers, topic)
    allow_reading(broker, ALICE, group)

    def logins() -> int:
        return gateway.log_path.read_text().count(f"login outcome=accepted principal=User:{ALICE}")

    # A client that reauthenticates too late is disconnected, and its records are delivered again. It has 6 s for it.
    with group.member(**login(secrets, ALICE, OAUTHBEARER, lifetime_s=30)) as member:
        member.poll_until(lambda: member.accepted == keys(1, 10))
        before = logins()
        member.poll_until(lambda: logins() > before + 3)
        producer = KafkaProducer(bootstrap_servers=broker.kafka.bootstrap_servers)
        for number in range(10):
            producer.send(topic, b"late %d" % number)
        producer.close()
        member.poll_until(lambda: member.accepted == keys(1, 20))
        assert once(member)


@pytest.mark.long
def test_java(
    gateway: GatewayProcess, broker: SecuredBroker, secrets: Secrets, job: ShareGroupJobRun, topic: str
) -> None:
    group = Group(job, gateway.bootstrap_servers, topic)
    allow_reading(broker, ALICE, group)
    settings, options = secrets.java(ALICE, "PLAIN")
    said = run_tool(
        CONSOLE, "--bootstrap-server", gateway.bootstrap_servers, "--topic", topic, "--group", group.id,
        "--command-config", settings, "--max-messages", "10", "--timeout-ms", "180000",
        timeout_s=400, java_options=options,
    )  # fmt: skip
    assert sorted(said.splitlines()) == [f"record {number}" for number in range(10)]


def test_an_administrator_sees_what_the_brokers_let_him_see(
    gateway: GatewayProcess, broker: SecuredBroker, secrets: Secrets, job: ShareGroupJobRun, topic: str
) -> None:
    group = Group(job, gateway.bootstrap_servers, topic)
    allow_reading(broker, ALICE, group)
    with group.member(**login(secrets, ALICE)) as member:
        member.poll_until(lambda: member.accepted == keys(1, 10))

    def command(user: str, *words: str) -> str:
        settings, _ = secrets.java(user, "PLAIN")
        server = ("--bootstrap-server", gateway.bootstrap_servers, "--command-config", settings)
        said = run("share-groups", *server, *words, "--timeout", "20000")
        return said.out + said.err

    assert group.id in command(ALICE, "--list").split()
    assert topic in command(ALICE, "--describe", "--group", group.id)
    assert group.id not in command(MALLORY, "--list").split()
    assert "is not authorized" in command(MALLORY, "--describe", "--group", group.id)
    assert "Group authorization failed" in command(ALICE, "--delete", "--group", group.id)
