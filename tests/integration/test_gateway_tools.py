"""Kafka's own Java clients, with their default settings, through the gateway."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, TopicPartition

from tests.integration.java_tool import run_tool
from tests.integration.share_members import Group

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer"
PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
#: How long a tool waits for a record, and how long it may take.
PATIENCE_MS, TOOL_TIMEOUT_S = "180000", 240


def at(gateway: GatewayProcess, group: Group) -> tuple[str, ...]:
    return "--bootstrap-server", gateway.bootstrap_servers, "--topic", group.topic


def test_console_share_consumer(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic
) -> None:
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(2, 50))
    said = run_tool(
        CONSOLE, *at(gateway, group), "--group", group.id,
        "--max-messages", "100", "--timeout-ms", PATIENCE_MS, timeout_s=TOOL_TIMEOUT_S,
    )  # fmt: skip
    assert sorted(said.splitlines()) == sorted(2 * [f"record {number}" for number in range(50)])
    assert group.await_finished().outcomes == {"accepted": 100}


def test_share_consumer_performance(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic
) -> None:
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(2, 2_000))
    said = run_tool(
        PERFORMANCE, *at(gateway, group), "--group", group.id,
        "--num-records", "4000", "--timeout", PATIENCE_MS, timeout_s=TOOL_TIMEOUT_S,
    )  # fmt: skip
    header, figures = said.splitlines()[:2]
    assert dict(zip(header.split(", "), figures.split(", "), strict=True))["data.consumed.in.nMsg"] == "4000"
    assert group.await_finished().outcomes == {"accepted": 4_000}


def test_verifiable_share_consumer(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic
) -> None:
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(2, 50))
    said = run_tool(
        VERIFIABLE, *at(gateway, group), "--group-id", group.id,
        "--max-messages", "100", "--acknowledgement-mode", "sync", timeout_s=TOOL_TIMEOUT_S,
    )  # fmt: skip
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    consumed = sum(event["count"] for event in events if event["name"] == "records_consumed")
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert (consumed, sum(event["count"] for event in acknowledged)) == (100, 100)
    assert all(event["success"] for event in acknowledged)
    assert group.await_finished().outcomes == {"accepted": 100}


def test_transactional_producer(
    kafka: EmbeddedKafka, gateway: GatewayProcess, new_topic: NewTopic, unique_name: Callable[[str], str]
) -> None:
    """The broker's transaction.version is 2, and what passes through is of version 1."""
    topic = new_topic()
    run_tool(
        PRODUCER, "--bootstrap-server", gateway.bootstrap_servers, "--topic", topic, "--num-records", "100",
        "--record-size", "10", "--throughput", "-1", "--transactional-id", unique_name("writer"),
    )  # fmt: skip
    committed = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(PATIENCE_MS),
    )
    try:
        committed.assign([TopicPartition(topic, 0)])
        assert len(list(islice(committed, 100))) == 100
    finally:
        committed.close()
