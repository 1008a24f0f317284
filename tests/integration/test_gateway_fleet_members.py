"""Members that know one gateway alone go on at the other when it is killed, and lose nothing when it ends in order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.testing.logged_process import LoggedProcess
from sharegroup.testing.ports import free_port
from tests.integration.java_tool import tool_command
from tests.integration.metric_scrapes import Scrape, get
from tests.integration.share_members import Group, Record, keys, once
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
ROUND = 50
EXPLICIT = {"share_acknowledgement_mode": "explicit"}


@pytest.fixture
def metrics_ports() -> tuple[int, int]:
    """Where the gateways say whether they are ready, and what they have served."""
    return free_port(), free_port()


@pytest.fixture
def gateways(
    share_group_job: ShareGroupJobRun, metrics_ports: tuple[int, int], tmp_path: Path
) -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    """Two that know each other, and no others: these have another listener name."""
    settings = yaml.safe_load(share_group_job.config_path.read_text())
    settings["gateway"] = {**settings.get("gateway", {}), "gateway.listener.name": tmp_path.name}
    settings["gateway"]["gateway.drain.timeout.ms"] = 600_000
    config = tmp_path / "gateways.yaml"
    config.write_text(yaml.safe_dump(settings))
    with ExitStack() as resources:
        one, two = (
            resources.enter_context(GatewayProcess(config, tmp_path / name, options=[f"--metrics-port={port}"]))
            for name, port in zip(("one.log", "two.log"), metrics_ports, strict=True)
        )
        for gateway, other in ((one, two), (two, one)):
            wait_until(lambda g=gateway, o=other: knows(g, o), "the gateways know each other")  # type: ignore[misc]
        yield one, two


def knows(gateway: GatewayProcess, other: GatewayProcess) -> bool:
    """Whether a gateway has said that the other one is there."""
    return gateway.has_logged(f"gateway {other.standby_address} is available")


def heartbeats_at(metrics_port: int) -> float:
    """The heartbeats of members that a gateway has served."""
    return Scrape(metrics_port).value("sharegroup_gateway_requests_total", api="ShareGroupHeartbeatRequest")


def append(producer: KafkaProducer, topic: str, name: str) -> None:
    for number in range(ROUND):
        producer.send(topic, b"%s %d" % (name.encode(), number), partition=0)
    producer.flush()


@pytest.mark.thorough
def test_a_librdkafka_member_goes_on_at_the_gateway_that_lives(
    share_group_job: ShareGroupJobRun,
    gateways: tuple[GatewayProcess, GatewayProcess],
    metrics_ports: tuple[int, int],
    producer: KafkaProducer,
    new_topic: NewTopic,
) -> None:
    """Its heartbeats go there as well. The first gateway comes back, and then the second one is killed.

    A gateway that comes back may draw the member to itself in the middle of its work: what it has in hand then is
    acknowledged without its hearing so, or comes again.
    """
    one, two = gateways
    group = Group(share_group_job, one.bootstrap_servers, new_topic(1, ROUND))
    with group.member() as member:
        member.poll_until(lambda: member.accepted == keys(1, ROUND))
        for number, (dying, living_port) in enumerate(zip((one, two), reversed(metrics_ports), strict=True), 1):
            heartbeats = heartbeats_at(living_port)
            dying.kill()
            began = time.monotonic()
            append(producer, group.topic, f"after {number}")
            member.poll_until(lambda number=number: len(member.deliveries) > number * ROUND)  # type: ignore[misc]
            print(f"librdkafka, {number}: the next record came after {time.monotonic() - began:.2f} s")
            assert group.await_finished(member).outcomes == {"accepted": (number + 1) * ROUND}
            member.poll_until(lambda port=living_port, known=heartbeats: heartbeats_at(port) > known)  # type: ignore[misc]
            dying.start()
            wait_until(lambda: knows(one, two) and knows(two, one), "the gateways know each other again")
        assert member.deliveries.keys() == keys(1, 3 * ROUND)


@pytest.mark.thorough
def test_a_java_member_goes_on_at_the_gateway_that_lives(
    share_group_job: ShareGroupJobRun,
    gateways: tuple[GatewayProcess, GatewayProcess],
    producer: KafkaProducer,
    new_topic: NewTopic,
    tmp_path: Path,
) -> None:
    one, _ = gateways
    group = Group(share_group_job, one.bootstrap_servers, new_topic(1, ROUND))
    arguments = ["--bootstrap-server", one.bootstrap_servers, "--topic", group.topic, "--group", group.id]
    console = LoggedProcess("the Java member", tool_command(CONSOLE, arguments), tmp_path / "console.log").start()
    try:
        console.await_log(f"record {ROUND - 1}")
        one.kill()
        began = time.monotonic()
        append(producer, group.topic, "after")
        console.await_log("after 0")
        print(f"Java: the next record came after {time.monotonic() - began:.2f} s")
        console.await_log(f"after {ROUND - 1}")
    finally:
        console.kill()


def test_a_gateway_that_ends_in_order_waits_for_what_its_member_holds(
    share_group_job: ShareGroupJobRun,
    gateways: tuple[GatewayProcess, GatewayProcess],
    metrics_ports: tuple[int, int],
    producer: KafkaProducer,
    new_topic: NewTopic,
) -> None:
    """It is not ready meanwhile; each record is delivered once, at one gateway or the other."""
    (one, _), (metrics_port, _) = gateways, metrics_ports
    group = Group(share_group_job, one.bootstrap_servers, new_topic(1, ROUND))
    held: list[Record] = []
    with ThreadPoolExecutor(1) as threads, group.member(**EXPLICIT) as member:
        member.poll_until(lambda: bool(held), held.append)
        assert get(metrics_port, "/readyz") == (200, "ok\n")
        ending = threads.submit(one.terminate)
        wait_until(lambda: get(metrics_port, "/readyz")[0] == 503, "it is not ready any more")
        assert get(metrics_port, "/healthz") == (200, "ok\n")
        for record in held:
            member.acknowledge(record)
        append(producer, group.topic, "after")
        member.poll_until(lambda: member.accepted == keys(1, 2 * ROUND), member.acknowledge)
        assert ending.result() == 0
        assert "drain timeout expired" not in one.log_path.read_text()
        assert once(member)
    assert group.await_finished().outcomes == {"accepted": 2 * ROUND}
