"""Share consumers over TLS, by each way to log in, for whom an access control list says what they may do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException

from sharegroup.client import RequestError, ShareConsumer
from sharegroup.testing.gateway_process import GatewayProcess
from tests.integration.client_groups import poll_records
from tests.integration.command_line import Said, run
from tests.integration.java_tool import run_tool
from tests.integration.lone_gateway import gateway_to_job
from tests.integration.secured_clients import CERTIFIED, MECHANISMS, MTLS, OAUTHBEARER, Secrets
from tests.integration.share_members import Group, Member, keys, once
from tests.integration.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

ALICE, MALLORY = "alice", "mallory"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
READS_TOPICS = {"resource": "topic", "name": "*", "operations": ["Read"]}
READS_GROUPS = {"resource": "group", "prefix": "earliest-", "operations": ["Read"]}
ACL = [
    *({"principal": principal, **READS_TOPICS} for principal in ("User:alice", "User:mallory", CERTIFIED)),
    *({"principal": principal, **READS_GROUPS} for principal in ("User:alice", CERTIFIED)),
]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    return Secrets(tmp_path_factory.mktemp("member-secrets"), (ALICE, MALLORY), ACL)


@pytest.fixture(scope="module")
def gateway(
    share_group_job: ShareGroupJobRun, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """By all mechanisms of SASL."""
    with gateway_to_job(share_group_job, tmp_path_factory.mktemp("secured-members"), secrets.gateway()) as process:
        yield process


@pytest.fixture(scope="module")
def certified(
    share_group_job: ShareGroupJobRun, secrets: Secrets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """By certificates of clients."""
    with gateway_to_job(
        share_group_job, tmp_path_factory.mktemp("certified-members"), secrets.gateway(MTLS)
    ) as process:
        yield process


@pytest.fixture(params=MECHANISMS)
def mechanism(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def door(mechanism: str, request: pytest.FixtureRequest) -> GatewayProcess:
    """The gateway that has the mechanism."""
    found = request.getfixturevalue("certified" if mechanism == MTLS else "gateway")
    assert isinstance(found, GatewayProcess)
    return found


def login(secrets: Secrets, user: str, mechanism: str = "SCRAM-SHA-512", **more: Any) -> dict[str, Any]:
    """A member's settings."""
    return {key.replace(".", "_"): value for key, value in secrets.librdkafka(user, mechanism, **more).items()}


def audited(gateway: GatewayProcess, *words: str) -> list[str]:
    """The lines of the audit log with these words in them."""
    lines = [line for line in gateway.log_path.read_text().splitlines() if " AUDIT " in line]
    return [line for line in lines if all(word in line for word in words)]


def test_librdkafka(
    door: GatewayProcess, mechanism: str, share_group_job: ShareGroupJobRun, new_topic: NewTopic, secrets: Secrets
) -> None:
    group = Group(share_group_job, door.bootstrap_servers, new_topic(2, 50))
    with group.member(**login(secrets, ALICE, mechanism)) as member:
        member.poll_until(lambda: member.accepted == keys(2, 50))
        assert once(member)
    assert group.await_finished().outcomes == {"accepted": 100}
    named = "TLS" if mechanism == MTLS else mechanism
    assert audited(door, "login outcome=accepted", f"mechanism={named}", "address=127.0.0.1")


@pytest.mark.thorough
def test_client_for_python(
    door: GatewayProcess, mechanism: str, share_group_job: ShareGroupJobRun, new_topic: NewTopic, secrets: Secrets
) -> None:
    group = Group(share_group_job, door.bootstrap_servers, new_topic(2, 50))
    settings = secrets.kafka_python(ALICE, mechanism)
    with ShareConsumer(door.bootstrap_servers, group_id=group.id, topics=[group.topic], **settings) as consumer:
        poll_records(consumer, 100)
        assert set(consumer.commit_sync().values()) <= {None}
    assert group.await_finished().outcomes == {"accepted": 100}


def test_client_for_python_raises_what_it_is_refused(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, secrets: Secrets
) -> None:
    group_id = share_group_job.new_group()
    for user, password, message in (
        (MALLORY, "mallory's secret", "GROUP_AUTHORIZATION_FAILED"),
        (ALICE, "wrong", "SASL_AUTHENTICATION_FAILED"),
    ):
        settings = {**secrets.kafka_python(user, "PLAIN"), "sasl_plain_password": password}
        with (
            ShareConsumer(gateway.bootstrap_servers, group_id=group_id, topics=["orders"], **settings) as consumer,
            pytest.raises(RequestError, match=message),
        ):
            consumer.poll(120)


@pytest.mark.thorough
def test_java(
    door: GatewayProcess, mechanism: str, share_group_job: ShareGroupJobRun, new_topic: NewTopic, secrets: Secrets
) -> None:
    group = Group(share_group_job, door.bootstrap_servers, new_topic(1, 20))
    settings, options = secrets.java(ALICE, mechanism)
    said = run_tool(
        CONSOLE, "--bootstrap-server", door.bootstrap_servers, "--topic", group.topic, "--group", group.id,
        "--command-config", settings, "--max-messages", "20", "--timeout-ms", "180000",
        timeout_s=400, java_options=options,
    )  # fmt: skip
    assert sorted(said.splitlines()) == sorted(f"record {number}" for number in range(20))
    assert group.await_finished().outcomes == {"accepted": 20}


def test_who_may_not_use_the_group_is_told_so(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic, secrets: Secrets
) -> None:
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, 10))
    with group.member(**login(secrets, MALLORY)) as stranger:
        with pytest.raises(KafkaException) as refused:
            stranger.poll_until(lambda: False)
        assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        assert stranger.deliveries == {}
    assert audited(gateway, "access outcome=refused principal=User:mallory", f"resource=group:{group.id}")
    with Member(gateway.bootstrap_servers, group.id, group.topic, **login(secrets, ALICE)) as member:
        member.poll_until(lambda: member.accepted == keys(1, 10))
        assert once(member)


@pytest.mark.thorough
def test_a_member_outlives_its_tokens(
    share_group_job: ShareGroupJobRun, new_topic: NewTopic, secrets: Secrets, tmp_path: Path
) -> None:
    """librdkafka logs in again (KIP-368), and goes on; on a slow machine by connections that are new."""
    keys_of_gateway = {**secrets.gateway(), "gateway.sasl.oauthbearer.clock.skew.seconds": 0}
    with gateway_to_job(share_group_job, tmp_path, keys_of_gateway) as gateway:
        group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, 10))
        with group.member(**login(secrets, ALICE, OAUTHBEARER, lifetime_s=10)) as member:
            member.poll_until(lambda: member.accepted == keys(1, 10))
            logins = len(audited(gateway, "login outcome=accepted"))
            member.poll_until(lambda: len(audited(gateway, "login outcome=accepted")) > 2 * logins)
            assert once(member)
        assert not audited(gateway, "login outcome=refused")


def test_users_and_rights_change_while_the_gateway_runs(
    share_group_job: ShareGroupJobRun, new_topic: NewTopic, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own = Secrets(tmp_path_factory.mktemp("changing-secrets"), (ALICE,), ACL)
    with gateway_to_job(share_group_job, tmp_path, own.gateway()) as gateway:
        group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, 10))
        own.change((ALICE, MALLORY), [*ACL, {"principal": "User:mallory", **READS_GROUPS}])
        for name in ("users.yaml", "acl.yaml"):
            gateway.await_log(f"{name} changed and was reloaded", since=0)
        with group.member(**login(own, MALLORY, "SCRAM-SHA-256")) as member:
            member.poll_until(lambda: member.accepted == keys(1, 10))
            assert once(member)


def test_an_administrators_command_logs_in(gateway: GatewayProcess, secrets: Secrets, tmp_path: Path) -> None:
    def describe(user: str, password: str) -> Said:
        settings = tmp_path / "client.properties"
        settings.write_text(
            "security.protocol=SASL_SSL\n"
            f"ssl.ca.location={secrets.path('cert.pem')}\n"
            "sasl.mechanism=SCRAM-SHA-512\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
            f'    username="{user}" password="{password}";\n'
        )
        server = ("--bootstrap-server", gateway.bootstrap_servers, "--command-config", str(settings))
        described = ("--describe", "--group", "earliest-none", "--timeout", str(PATIENCE_S * 1000))
        return run("share-groups", *server, *described)

    assert "Group earliest-none not found." in describe(ALICE, "alice's secret").err
    assert (
        "User:mallory is not authorized: DESCRIBE on group earliest-none" in describe(MALLORY, "mallory's secret").err
    )
    refused = describe(ALICE, "a guess")
    assert (refused.code, refused.out) == (1, "")
    assert "authenticat" in refused.err.lower()


def test_no_secret_is_in_a_log(gateway: GatewayProcess, secrets: Secrets) -> None:
    log = gateway.log_path.read_text()
    assert "alice's secret" not in log
    assert "a guess" not in log
    assert not re.search(r"eyJ[\w-]+\.", log)  # how every token begins
    stored = yaml.safe_load((secrets.directory / "users.yaml").read_text())
    parts = [part for entries in stored.values() for entry in entries for part in re.split("[$:]", entry)[2:]]
    assert parts
    assert not [part for part in parts if part in log]
