"""B17: a gateway is killed, and its member, which knows that one alone, goes on at the other: how long until a record.

Plain clients with default settings. The time is from the kill to the next record, which is produced just after it;
beside it is what a record takes while nobody dies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer, ShareConsumer

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.testing.logged_process import LoggedProcess
from tests.benchmarks.engine import Engine, write_config
from tests.benchmarks.figures import Figure, median
from tests.integration.java_tool import tool_command

NAME = "B17"
_REACH_S = 1.0
_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_KNOWN_S = 60
#: Waits until the member has been given the record with this value.
Await = Callable[[str], None]


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Each client in turn; the two gateways die in turns."""
    kills = 2 if quick else 10
    clients = {"librdkafka": _librdkafka, "java": _java}
    for name in clients:
        kafka.create_topic(name, partitions=1)
    config = write_config(directory / "engine", kafka.bootstrap_servers, groups=list(clients))
    figures: list[Figure] = []
    details: dict[str, object] = {}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0})
    with Engine(config), _gateway(config, directory, "one") as one, _gateway(config, directory, "two") as two:
        for name, client in clients.items():
            with client(one.bootstrap_servers, name, directory) as await_record:
                quiet, found = _times(producer, name, await_record, (one, two), kills)
            what = f"{name} share consumer, from its gateway's death to the next record"
            figures += [
                Figure(NAME, f"{what}, median", median(found), "s", median(quiet), median(found) / median(quiet),
                       f"<= {_REACH_S:g} s", median(found) <= _REACH_S, f"{kills} kills"),
                Figure(NAME, f"{what}, longest", max(found), "s", max(quiet)),
            ]  # fmt: skip
            details[name] = {"quiet_s": quiet, "kills_s": found}
    return figures, details


def _gateway(config: Path, directory: Path, name: str) -> GatewayProcess:
    return GatewayProcess(config, directory / f"{name}.log")


def _times(
    producer: Producer, topic: str, await_record: Await, gateways: tuple[GatewayProcess, GatewayProcess], kills: int
) -> tuple[list[float], list[float]]:
    """Seconds: of records while nobody dies, and after each kill. The member is at the first gateway."""

    def record(value: str, since: float) -> float:
        producer.produce(topic, value.encode())
        producer.flush()
        await_record(value)
        return time.monotonic() - since

    quiet, found = [], []
    at, other = gateways
    _await_news_of(at, other, 0)
    _await_news_of(other, at, 0)
    for number in range(kills):
        record(f"again {number}.", time.monotonic())
        quiet.append(record(f"quiet {number}.", time.monotonic()))
        began = time.monotonic()
        at.kill()
        found.append(record(f"killed {number}.", began))
        began_at = at.log_path.stat().st_size
        at.start()
        _await_news_of(at, other, began_at)  # the other one has not forgotten this one yet
        at, other = other, at
    if at is not gateways[0]:  # the next client begins at the first one
        raise ValueError("the number of kills must be even")
    return quiet, found


def _await_news_of(gateway: GatewayProcess, other: GatewayProcess, since: int) -> None:
    gateway.await_log(f"gateway {other.standby_address} is available", _KNOWN_S, since)


@contextmanager
def _librdkafka(bootstrap_servers: str, name: str, directory: Path) -> Iterator[Await]:
    consumer = ShareConsumer({"bootstrap.servers": bootstrap_servers, "group.id": name})
    consumer.subscribe([name])
    seen: set[bytes] = set()

    def await_record(value: str) -> None:
        while value.encode() not in seen:
            seen.update(message.value() for message in consumer.poll(timeout=0.1) if message.error() is None)

    try:
        yield await_record
    finally:
        consumer.close()


@contextmanager
def _java(bootstrap_servers: str, name: str, directory: Path) -> Iterator[Await]:
    arguments = ["--bootstrap-server", bootstrap_servers, "--topic", name, "--group", name]
    console = LoggedProcess("the Java member", tool_command(_CONSOLE, arguments), directory / "console.log").start()
    try:
        yield lambda value: console.await_log(value) and None
    finally:
        console.kill()
