"""Two gateways know each other, and clients of one that ends go on at the other: plain clients, without a job.

The gateways need the job's topics, not the job; these are of names that no other gateway here knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from sharegroup.cli.servers.gateway_workers import PORTS_EACH
from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.testing.ports import free_ports
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

BROKER = 1
ROUND = 50
#: The job's topics, by the middle of their keys.
TOPICS = ("group.requests", "partition.requests", "group.responses")
#: librdkafka's fatal errors alone: gateways are killed here.
QUIET = {"log_level": 1}


class Pair(NamedTuple):
    """Two gateways, each known to the other."""

    one: GatewayProcess
    two: GatewayProcess


def brokers_told(gateway: GatewayProcess) -> dict[int, str]:
    """{node id: address} of the Metadata of a gateway's own port, by a client that does not stay."""
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers, **QUIET})
    return {node_id: f"{b.host}:{b.port}" for node_id, b in admin.list_topics(timeout=60).brokers.items()}


def names(gateway: GatewayProcess, other: GatewayProcess) -> bool:
    """Whether a gateway's Metadata has its own port, and the other one's standby port as one more broker."""
    told = brokers_told(gateway)
    own = told.pop(BROKER)
    return own == gateway.addresses[BROKER] and list(told.values()) == [standby_of(other)]


def standby_of(gateway: GatewayProcess) -> str:
    """The port before the base port, which has the broker's id behind it."""
    host, _, port = gateway.addresses[BROKER].rpartition(":")
    return f"{host}:{int(port) - BROKER - 1}"


@pytest.fixture
def config(kafka: EmbeddedKafka, unique_name: Callable[[str], str], tmp_path: Path) -> Path:
    """Of gateways whose job's topics are there."""
    prefix = unique_name("fleet")
    topics = {f"share.{key}.topic": f"{prefix}-{key}" for key in TOPICS}
    for name in topics.values():
        kafka.create_topic(name, 2, {"message.timestamp.type": "LogAppendTime"})
    path = tmp_path / "fleet.yaml"
    job = {"bootstrap.servers": kafka.bootstrap_servers, "tables.path": str(tmp_path / "tables"), **topics}
    path.write_text(yaml.safe_dump({"job": job, "gateway": {"gateway.drain.timeout.ms": 60_000}}))
    return path


@pytest.fixture
def pair(config: Path, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as resources:
        one, two = (
            resources.enter_context(GatewayProcess(config, tmp_path / f"{name}.log")) for name in ("one", "two")
        )
        wait_until(lambda: names(one, two) and names(two, one), "each gateway names the other")
        yield Pair(one, two)


def test_workers_are_gateways_that_know_each_other_and_end_together(config: Path, tmp_path: Path) -> None:
    port = free_ports(2 * PORTS_EACH)[1]  # the first is its standby port
    with GatewayProcess(config, tmp_path / "workers.log", port=port, options=["--workers=2"]) as first:
        wait_until(lambda: len(brokers_told(first)) == 2, "a worker names the other one as a standby")
        assert first.terminate() == 0


@pytest.mark.thorough
def test_a_gateway_that_dies_is_named_no_more_and_is_when_it_is_back(pair: Pair) -> None:
    pair.one.kill()
    wait_until(lambda: brokers_told(pair.two) == {BROKER: pair.two.addresses[BROKER]}, "its row counts no more")
    at_its_port = dict(pair.one.addresses)
    pair.one.start()
    assert pair.one.addresses == at_its_port
    wait_until(lambda: names(pair.one, pair.two) and names(pair.two, pair.one), "each names the other again")


def test_who_comes_by_the_standby_port_is_told_the_gateway_that_lives(pair: Pair) -> None:
    def told(standby: str) -> dict[int, str]:
        admin = AdminClient({"bootstrap.servers": standby, **QUIET})
        found = admin.list_topics(timeout=60)
        return {node_id: f"{b.host}:{b.port}" for node_id, b in found.brokers.items()}

    assert told(standby_of(pair.two))[BROKER] == pair.one.addresses[BROKER]
    assert told(standby_of(pair.one))[BROKER] == pair.two.addresses[BROKER]
    pair.one.kill()
    at_the_other = {pair.two.addresses[BROKER], standby_of(pair.two)}
    wait_until(lambda: set(told(standby_of(pair.two)).values()) == at_the_other, "the one that lives says it is there")


@pytest.mark.parametrize("ends", ["killed", "drained"])
@pytest.mark.thorough
def test_a_producer_and_a_consumer_that_know_one_gateway_go_on_at_the_other(
    pair: Pair, new_topic: NewTopic, ends: str
) -> None:
    """Of each client library: what is produced after the end arrives, once and in order."""
    topic = new_topic()
    servers = pair.one.addresses[BROKER]
    sent = [b"%d" % number for number in range(2 * ROUND)]
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, **QUIET})
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest", **QUIET}
    )  # fmt: skip
    consumer.subscribe([topic])
    python = KafkaConsumer(topic, bootstrap_servers=servers, group_id=None, auto_offset_reset="earliest")
    got: list[bytes] = []
    got_by_python: list[bytes] = []

    def poll() -> None:
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            got.append(message.value())
        for messages in python.poll(timeout_ms=50).values():
            got_by_python.extend(message.value for message in messages)

    def have(count: int) -> bool:
        poll()
        return len(got) >= count and len(got_by_python) >= count

    for value in sent[:ROUND]:
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    wait_until(lambda: have(ROUND), "the first round came")
    if ends == "killed":
        pair.one.kill()
    else:
        assert pair.one.terminate() == 0
    began = time.monotonic()
    for value in sent[ROUND:]:
        producer.produce(topic, value)
    wait_until(lambda: have(ROUND + 1), "consumers go on")
    print(f"{ends}: the next record came after {time.monotonic() - began:.2f} s")
    assert producer.flush(60) == 0
    wait_until(lambda: have(2 * ROUND), "the second round came")
    consumer.close()
    python.close()
    assert got == got_by_python == sent


def test_an_idempotent_producer_of_kafka_python_goes_on(pair: Pair, new_topic: NewTopic) -> None:
    topic = new_topic()
    producer = KafkaProducer(bootstrap_servers=pair.one.addresses[BROKER], acks="all", enable_idempotence=True)
    producer.send(topic, b"before").get(60)
    pair.one.kill()
    assert producer.send(topic, b"after").get(60).offset == 1
    producer.close()
