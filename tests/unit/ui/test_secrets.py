"""Secrets, the audit of logins and changes, and changes of the users file."""

from __future__ import annotations

import base64
import logging
import re
from pathlib import Path

import pytest

from sharegroup.config import Config, GatewayConfig, JobConfig
from sharegroup.security.authentication.credentials import hash_password
from sharegroup.ui.access import Access
from sharegroup.ui.app import application
from tests.unit.ui.seen import browser, group, partition, parts

PASSWORD, OF_THE_JOB = "s3cret", "hunter2"
CHANGE = {"group": "g", "name": "share.isolation.level", "value": "read_committed"}


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users.yaml"
    path.write_text(hash_password("alice", PASSWORD), encoding="utf-8")
    return path


def config_of(users: Path) -> GatewayConfig:
    return GatewayConfig.model_validate({"gateway.sasl.users.location": str(users)})


def login(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_no_secret_is_on_a_page_or_in_its_log(users: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    jaas = f'x.PlainLoginModule required username="job" password="{OF_THE_JOB}";'
    job = JobConfig.model_validate({"kafka": {"sasl.jaas.config": jaas}, "tables.storage.options": {"K": OF_THE_JOB}})
    config = Config(job=job, gateway=config_of(users))
    page = browser(parts([group("g", [partition()])], allows_changes=True)._replace(config=config), config.gateway)
    paths = ["/", "/group?group=g", "/window?group=g&topic=orders&partition=0", "/dead-ends", "/group?group=none"]
    shown = "".join(page.get(path, headers=login("alice", PASSWORD)).text for path in paths)
    page.get("/", headers=login("alice", "gue55ed"))
    assert "orders" in shown
    entry = users.read_text().split("$")
    secrets = [PASSWORD, OF_THE_JOB, "gue55ed", *entry[1].split(":")[1:], *entry[2].strip().split(":")]
    assert not [secret for secret in secrets if secret in shown or secret in caplog.text]


def test_logins_and_changes_are_audited(
    users: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "sharegroup.audit")
    altered: list[object] = []
    monkeypatch.setattr("sharegroup.ui.changes.alter_configs", lambda *given: altered.append(given[2]))
    page = browser(parts([group("g", [partition()])], allows_changes=True), config_of(users))
    page.get("/", headers=login("alice", "wrong"))
    shown = page.get("/group?group=g", headers=login("alice", PASSWORD)).text
    token = re.search('name="token" value="([0-9a-f]+)"', shown)
    assert token is not None
    answer = page.post("/change/config", data=CHANGE | {"token": token[1]}, headers=login("alice", PASSWORD))
    assert (answer.status_code, altered) == (303, [{"share.isolation.level": "read_committed"}])
    by_alice = "principal=User:alice address=testclient api=page"
    assert [record.getMessage() for record in caplog.records if record.name == "sharegroup.audit"] == [
        "login outcome=refused claimed=alice address=testclient mechanism=HTTP-Basic"
        ' reason="the user is not known, or the password is wrong"',
        "login outcome=accepted principal=User:alice address=testclient mechanism=HTTP-Basic",
        f"change outcome=done {by_alice} resource=group:g detail=configured",
    ]


def test_users_change_while_the_page_is_served(users: Path) -> None:
    """A cached login must be checked again."""
    config = config_of(users)
    page = browser(parts([group("g")]), config)
    access = page.app
    assert isinstance(access, Access)
    assert page.get("/", headers=login("alice", PASSWORD)).status_code == 200
    users.write_text(hash_password("alice", "another"), encoding="utf-8")
    for _ in range(2):  # the file has to be at rest
        access.reload()
    assert page.get("/", headers=login("alice", PASSWORD)).status_code == 401
    assert page.get("/", headers=login("alice", "another")).status_code == 200


def test_without_users_nothing_is_reloaded() -> None:
    application(parts([]), GatewayConfig(), "127.0.0.1").reload()
