"""A share consumer over TLS, with a SCRAM login, for whom an access control list says what it may do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException

from sharegroup.gateway.security.credentials import hash_password
from sharegroup.testkit.gateway_process import GatewayProcess
from tests.integration.command_line import Said, run
from tests.integration.share_members import Group, Member, keys, once
from tests.self_signed import make_pems

if TYPE_CHECKING:
    from sharegroup.testkit.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

ALICE, MALLORY = "alice", "mallory"
ACL = [
    {"principal": "User:alice", "resource": "topic", "name": "*", "operations": ["Read"]},
    {"principal": "User:alice", "resource": "group", "prefix": "earliest-", "operations": ["Read"]},
    {"principal": "User:mallory", "resource": "topic", "name": "*", "operations": ["Read"]},
]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = make_pems(tmp_path_factory.mktemp("member-secrets"))
    users = "\n".join(hash_password(user, f"{user}'s secret") for user in (ALICE, MALLORY))
    (directory / "users.yaml").write_text(users, encoding="utf-8")
    (directory / "acl.yaml").write_text(yaml.safe_dump(ACL), encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def gateway(
    share_group_job: ShareGroupJobRun, secrets: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    """To the main job, in place of the one that lets everybody in."""
    directory = tmp_path_factory.mktemp("secured-members")
    config = yaml.safe_load(share_group_job.config_path.read_text())
    config["gateway"] = {
        "gateway.ssl.certificate.location": str(secrets / "cert.pem"),
        "gateway.ssl.key.location": str(secrets / "key.pem"),
        "gateway.sasl.users.location": str(secrets / "users.yaml"),
        "gateway.acls.location": str(secrets / "acl.yaml"),
    }
    (directory / "gateway.yaml").write_text(yaml.safe_dump(config))
    with GatewayProcess(directory / "gateway.yaml", directory / "gateway.log") as process:
        yield process
        assert process.terminate() == 0
        assert " ERROR " not in process.log_path.read_text()


def login(secrets: Path, user: str) -> dict[str, Any]:
    """Settings of a client, with underscores."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_ca_location": str(secrets / "cert.pem"),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": user,
        "sasl_password": f"{user}'s secret",
    }


def test_who_may_read_gets_the_records(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic, secrets: Path
) -> None:
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(2, 50))
    with group.member(**login(secrets, ALICE)) as member:
        member.poll_until(lambda: member.accepted == keys(2, 50))
        assert once(member)
    assert group.await_finished().outcomes == {"accepted": 100}


def test_who_may_not_use_the_group_is_told_so(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic, secrets: Path
) -> None:
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, 10))
    with group.member(**login(secrets, MALLORY)) as stranger:
        with pytest.raises(KafkaException) as refused:
            stranger.poll_until(lambda: False)
        assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        assert stranger.deliveries == {}
    with Member(gateway.bootstrap_servers, group.id, group.topic, **login(secrets, ALICE)) as member:
        member.poll_until(lambda: member.accepted == keys(1, 10))
        assert once(member)


def test_an_administrators_command_logs_in(gateway: GatewayProcess, secrets: Path, tmp_path: Path) -> None:
    def describe(user: str, password: str) -> Said:
        settings = tmp_path / "client.properties"
        settings.write_text(
            "security.protocol=SASL_SSL\n"
            f"ssl.ca.location={secrets / 'cert.pem'}\n"
            "sasl.mechanism=SCRAM-SHA-512\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
            f'    username="{user}" password="{password}";\n'
        )
        server = ("--bootstrap-server", gateway.bootstrap_servers, "--command-config", str(settings))
        return run("share-groups", *server, "--describe", "--group", "earliest-none", "--timeout", "20000")

    assert "Group earliest-none not found." in describe(ALICE, "alice's secret").err
    assert (
        "User:mallory is not authorized: DESCRIBE on group earliest-none" in describe(MALLORY, "mallory's secret").err
    )
    refused = describe(ALICE, "a guess")
    assert (refused.code, refused.out) == (1, "")
    assert "authenticat" in refused.err.lower()
