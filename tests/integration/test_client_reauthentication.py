"""The share consumer for Python outlives its SASL sessions (KIP-368), through our gateway and at Kafka itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.kafka_clients.connections import connection
from sharegroup.kafka_clients.connections.broker_login import log_in
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.client_groups import Group, keys, poll_records
from tests.integration.lone_gateway import gateway_to_job
from tests.integration.secured_broker import GATEWAY, secured_broker
from tests.integration.secured_clients import Secrets
from tests.integration.served import Served

pytestmark = pytest.mark.thorough

LIFETIME_MS, SESSIONS = 2_000, 4
RECORDS = 10
USER = GATEWAY  # may do everything
RIGHTS = [
    {"principal": f"User:{USER}", "resource": "topic", "name": "*", "operations": ["Read"]},
    {"principal": f"User:{USER}", "resource": "group", "name": "*", "operations": ["Read"]},
]


@pytest.fixture(params=["gateway", "kafka"])
def served(request: pytest.FixtureRequest, secrets: Secrets, tmp_path: Path) -> Iterator[Served]:
    """A server that ends the sessions of its clients."""
    if request.param == "kafka":
        with secured_broker(secrets, (), lifetime_ms=LIFETIME_MS, share_version=1) as broker:
            yield Served(False, broker.bootstrap_servers, broker.kafka)
        return
    job: ShareGroupJobRun = request.getfixturevalue("share_group_job")
    sessions = {"gateway.connections.max.reauth.ms": LIFETIME_MS}
    with gateway_to_job(job, tmp_path, {**secrets.gateway(), **sessions}) as gateway:
        yield Served(True, gateway.bootstrap_servers, request.getfixturevalue("kafka"))


@pytest.fixture
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    return Secrets(tmp_path_factory.mktemp("session-secrets"), (USER,), RIGHTS)


@pytest.fixture
def group(served: Served, request: pytest.FixtureRequest, unique_name: Callable[[str], str]) -> Group:
    """A group that reads ten records from the start."""
    topic = served.new_topic(unique_name("topic"), 1, RECORDS)
    if served.is_gateway:
        return Group(served, request.getfixturevalue("share_group_job").new_group(), topic)
    group_id = unique_name("group")
    with ShareGroupAdmin(served.kafka.bootstrap_servers) as admin:
        admin.alter_group_configs(group_id, {"share.auto.offset.reset": "earliest"})
    return Group(served, group_id, topic)


def test_consumer_outlives_its_sessions(group: Group, secrets: Secrets, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection logs in until it has outlived several sessions; its share session goes on."""
    logins: Counter[Any] = Counter()

    async def counted_log_in(broker: Any, *args: Any) -> int:
        logins[broker] += 1
        return await log_in(broker, *args)

    monkeypatch.setattr(connection, "log_in", counted_log_in)
    settings = secrets.kafka_python(USER, "PLAIN")
    if not group.served.is_gateway:
        settings["security_protocol"] = "SASL_PLAINTEXT"
    with group.consumer(**settings) as consumer:
        records = poll_records(consumer, RECORDS)
        while max(logins.values()) < SESSIONS:
            assert consumer.poll(0.1) == []
        group.served.append(group.topic, 1, RECORDS)
        records += poll_records(consumer, RECORDS)
        assert keys(records) == [(0, offset) for offset in range(2 * RECORDS)]
        assert {record.delivery_count for record in records} == {1}
        assert set(consumer.commit_sync().values()) == {None}
