"""The broker that every other integration test stands on."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from sharegroup.testing.embedded_kafka import EmbeddedKafka, EmbeddedKafkaError

pytestmark = pytest.mark.thorough


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Callable[[], bool], deadline_s: float = 30) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.05)


def produce(kafka: EmbeddedKafka, topic: str, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    for value in values:
        producer.send(topic, value)
    producer.flush()
    producer.close()


def consume(kafka: EmbeddedKafka, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    )
    values = [record.value for _, record in zip(range(count), consumer, strict=False)]
    consumer.close()
    return values


def test_what_is_produced_is_consumed(kafka: EmbeddedKafka, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("orders")
    kafka.create_topic(topic, partitions=1, config={"retention.ms": "3600000"})
    produce(kafka, topic, b"one", b"two", b"three")

    assert topic in kafka.topics()
    assert consume(kafka, topic, 3) == [b"one", b"two", b"three"]


def test_a_stopped_broker_leaves_nothing_and_one_with_a_data_dir_starts_where_it_was(tmp_path: Path) -> None:
    kafka = EmbeddedKafka(data_dir=tmp_path / "data")
    kafka.start()
    kafka.create_topic("orders")
    produce(kafka, "orders", b"kept")
    port, home = kafka.port, kafka.log_path.parent
    kafka.stop()

    assert not is_open(port)
    assert not home.exists()

    with kafka:
        assert kafka.port == port
        assert consume(kafka, "orders", 1) == [b"kept"]


def finalized(kafka: EmbeddedKafka, feature: str) -> tuple[int, int] | None:
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    levels: tuple[int, int] | None = admin.describe_features()[feature].get("finalized")
    admin.close()
    return levels


def test_a_feature_level_and_a_property_reach_the_broker(kafka: EmbeddedKafka) -> None:
    assert finalized(kafka, "share.version") is None  # as the fixture says

    with EmbeddedKafka(properties={"num.partitions": "7"}) as newer:
        assert finalized(newer, "share.version") == (1, 1)
        assert "num.partitions = 7" in newer.log_path.read_text()


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the brokers of a test have their files: a log that is kept on purpose must not stay for good."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_failing_start_shows_and_keeps_the_log(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kafka = EmbeddedKafka(properties={"log.cleaner.threads": "none"})

    with pytest.raises(EmbeddedKafkaError, match=r"(?s)kafka\.log.*log\.cleaner\.threads"):
        kafka.start()

    assert "log.cleaner.threads" in kafka.log_path.read_text()
    assert str(kafka.log_path) in capsys.readouterr().err
    assert [path.name for path in kafka.log_path.parent.iterdir() if path.is_dir()] == []


def test_a_port_that_someone_else_has_is_an_error_that_says_so(kafka: EmbeddedKafka, logs: Path) -> None:
    with pytest.raises(EmbeddedKafkaError, match="a port is taken"):
        EmbeddedKafka(port=kafka.port).start()

    assert is_open(kafka.port)


def test_a_broker_that_was_killed_is_reported_at_the_end(logs: Path) -> None:
    kafka = EmbeddedKafka()
    kafka.start()
    os.kill(broker_of(os.getpid(), kafka).pid, signal.SIGKILL)
    kafka.wait()

    with pytest.raises(EmbeddedKafkaError, match="exited unexpectedly with exit code -9"):
        kafka.stop()


def broker_of(parent: int, kafka: EmbeddedKafka) -> psutil.Process:
    properties = str(kafka.log_path.with_name("server.properties"))
    return next(child for child in psutil.Process(parent).children() if properties in child.cmdline())


@pytest.fixture
def by_hand() -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-m", "sharegroup.cli", "broker", "--port", "0", "--topic", "orders:3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def started(process: "subprocess.Popen[str]") -> tuple[int, psutil.Process]:
    """The port that a broker run by hand says it has, and the broker's process."""
    assert process.stdout is not None
    said = process.stdout.readline()
    assert "Kafka is ready on 127.0.0.1:" in said
    port = int(said.split("127.0.0.1:")[1].split(".")[0])
    java = next(child for child in psutil.Process(process.pid).children() if "kafka.Kafka" in child.cmdline())
    return port, java


def test_run_by_hand_it_says_where_it_is_and_sigterm_ends_it(by_hand: "subprocess.Popen[str]") -> None:
    port, java = started(by_hand)
    assert is_open(port)

    by_hand.terminate()

    assert by_hand.wait(30) == 0
    assert not java.is_running()
    assert not is_open(port)


def test_the_broker_does_not_outlive_a_killed_parent(by_hand: "subprocess.Popen[str]") -> None:
    port, java = started(by_hand)
    home = Path(next(part for part in java.cmdline() if part.endswith("server.properties"))).parent
    assert home.exists()

    by_hand.kill()

    wait_until(lambda: not is_open(port) and not home.exists())
