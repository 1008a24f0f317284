"""Clients that are broken, slow, many or hostile, and brokers that go away: everyone else is served."""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka import KafkaProducer
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import ProduceRequest

from sharegroup.gateway.clients.client_connection import ClientConnection
from sharegroup.gateway.upstream.passthrough import MAX_UNSENT_BYTES
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.kafka_clients.line_limit import LINES, WINDOW_S
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.harness.event_loop import EventLoop, until
from tests.integration.conftest import NewTopic
from tests.integration.fuzzed_frames import mutated, requests, send_all
from tests.integration.lone_gateway import lone_gateway, port_of
from tests.processes.served_clients import Client, Serve
from tests.unit.gateway.wire_bytes import framed

pytestmark = pytest.mark.thorough

FRAMES_OF_AN_EXAMPLE = 4_000
CLIENTS = 200
#: What the whole of them may add to the gateway's memory after the first example.
MAX_GROWTH_BYTES = 64 * 1_048_576
#: The maximum number of kinds of lines in the log. Of each of them, `LINES` may be written in `WINDOW_S` seconds.
MAX_LOG_KINDS = 80


@pytest.fixture(scope="module")
def gateway(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """In place of the one with a job. At the end it has to be there still, and to end as if nothing had been."""
    began = time.monotonic()
    with lone_gateway(tmp_path_factory.mktemp("lone-gateway"), kafka.bootstrap_servers) as process:
        yield process
        assert process.terminate() == 0
        log = process.log_path.read_text()
        assert "Traceback" not in log, log[-5_000:]
        windows = 1 + (time.monotonic() - began) / WINDOW_S
        assert log.count("\n") < MAX_LOG_KINDS * LINES * windows


@pytest.fixture
def client(loop: EventLoop, gateway: GatewayProcess) -> Iterator[Client]:
    client = Client(port_of(gateway), [])
    yield client
    loop.finish(client.close_all())


# -- fuzz --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number_of_frames", [12_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_fuzz(gateway: GatewayProcess, client: Client, loop: EventLoop, number_of_frames: int) -> None:
    """Valid frames of each API that the gateway answers itself, mutated ones, and random ones."""
    process = psutil.Process(gateway.pid)
    sizes: list[int] = []
    sent = 0

    @settings(
        derandomize=True,
        max_examples=number_of_frames // FRAMES_OF_AN_EXAMPLE,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(requests(), min_size=40, max_size=40), st.integers(0, 2**64))
    def frames(valid: list[bytes], seed: int) -> None:
        nonlocal sent
        choice = random.Random(seed)
        each = FRAMES_OF_AN_EXAMPLE // CLIENTS
        of_clients = [[mutated(choice.choice(valid), choice) for _ in range(each)] for _ in range(CLIENTS)]

        async def send() -> bool:
            await asyncio.gather(*(send_all(client.port, of_client) for of_client in of_clients))
            good = await client.another().connect()
            is_served = await good.is_served()
            good.close()
            return is_served

        assert loop.finish(send())
        sizes.append(process.memory_info().rss)
        sent += CLIENTS * each

    frames()
    assert sent >= number_of_frames
    assert sizes[-1] - sizes[0] < MAX_GROWTH_BYTES
    assert process.memory_info().rss < 300 * 1_048_576


# -- many, large and slow ----------------------------------------------------------------------------------------------


async def test_a_thousand_clients_at_once(client: Client, new_topic: NewTopic) -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=new_topic(partitions=3))])
    clients = [client.another() for _ in range(1_000)]
    for each in clients:  # one by one, because a connection without a request is closed after a while
        await each.connect()
        await each.ask(request, MetadataResponse, 8)
    answers = await asyncio.gather(*(each.ask(request, MetadataResponse, 8) for each in clients))
    assert [len(answer.topics[0].partitions) for answer in answers] == [3] * 1_000


async def test_others_are_served_while_one_sends_garbage(
    gateway: GatewayProcess, client: Client, new_topic: NewTopic
) -> None:
    topic = new_topic()
    garbage = [b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", 2**31 - 1), framed(b"\0\x03\0\x09" + b"\xff" * 50_000)]
    producer = Producer({"bootstrap.servers": gateway.bootstrap_servers})
    for number in range(300):
        rude = await client.another().connect()
        rude.send(garbage[number % 3])
        assert await rude.is_closed()
        producer.produce(topic, b"%d" % number)
        producer.poll(0)
    assert producer.flush(30) == 0
    assert watermarks(gateway, topic) == (0, 300)


def watermarks(gateway: GatewayProcess, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": gateway.bootstrap_servers, "group.id": "watermarks"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        return low, high
    finally:
        consumer.close()


def large_topic(kafka: EmbeddedKafka, name: str, records: int, size: int) -> None:
    kafka.create_topic(name, config={"max.message.bytes": str(2 * size)})
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, max_request_size=2 * size, batch_size=0)
    for _ in range(records):
        producer.send(name, bytes(size))
    producer.flush()
    producer.close()


def fetch(topic: str, offset: int) -> FetchRequest:
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1, current_leader_epoch=-1, log_start_offset=-1
    )
    wanted = FetchRequest.FetchTopic(topic=topic, partitions=[partition])
    return FetchRequest(replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=1, isolation_level=0, topics=[wanted])


async def test_a_client_that_does_not_read_large_responses_costs_one_of_them(
    kafka: EmbeddedKafka, serve: Serve, unique_name: Callable[[str], str]
) -> None:
    """It may have sent all its requests; the broker's responses wait with the broker."""
    topic, size, count = unique_name("large"), 4 * 1_048_576, 12
    large_topic(kafka, topic, count, size)
    gateway, client = await serve()
    await client.connect()
    await client.ask(fetch(topic, 0), FetchResponse, 4)
    (connection,) = gateway.parts.connections
    assert isinstance(connection, ClientConnection)
    link: Any = connection._requests._passthrough._connection  # type: ignore[union-attr]
    for offset in range(count):
        client.send(wire.encode_request(fetch(topic, offset), 4, offset, "slow"))
    await until(lambda: link.is_held)
    assert not link.transport.is_reading()
    for offset in range(count):
        assert link.unsent_bytes <= MAX_UNSENT_BYTES + 1.1 * size
        frame = await client.frame()
        assert int.from_bytes(frame[:4], "big") == offset
        answer = wire.decode_response(FetchResponse, 4, memoryview(frame))
        assert len(answer.responses[0].partitions[0].records) > size


async def test_produce_without_acknowledgement_is_followed_by_the_next_request(
    serve: Serve, new_topic: NewTopic
) -> None:
    """It has no response: the next one's must not be taken for it."""
    topic, nothing = new_topic(), ProduceRequest(transactional_id=None, acks=0, timeout_ms=1_000, topic_data=[])
    _, client = await serve()
    await client.connect()
    for version in (3, 8, 9):
        client.send(wire.encode_request(nothing, version, 99, "test"))
        answer = await client.ask(fetch(topic, 0), FetchResponse, 4)
        assert answer.responses[0].partitions[0].error_code == 0


@pytest.mark.parametrize("version", [10, 99, -1])
async def test_a_version_that_was_not_offered_does_not_pass_through(
    serve: Serve, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    """Produce 10 has addresses of brokers in its response. A broker would close the connection, too."""
    caplog.set_level("INFO", "sharegroup.gateway")
    _, client = await serve()
    await client.connect()
    client.send(framed(struct.pack(">hhih", 0, version, 7, -1) + b"\0" * 20))
    assert await client.is_closed()
    assert f"disconnected: version {version} of Produce is not offered to clients" in caplog.text


async def test_an_own_request_beyond_its_limit_and_one_that_passes_through(
    kafka: EmbeddedKafka, serve: Serve, unique_name: Callable[[str], str]
) -> None:
    topic = unique_name("large")
    kafka.create_topic(topic, config={"max.message.bytes": str(20 * 1_048_576)})
    _, client = await serve()
    await client.connect()
    topics = [MetadataRequest.MetadataRequestTopic(name="x" * 200)] * 6_000
    client.send(wire.encode_request(MetadataRequest(topics=topics), 8, 7, "test"))
    assert await client.is_closed()
    await asyncio.to_thread(produce, f"127.0.0.1:{client.port}", topic, [bytes(5 * 1_048_576)] * 3)


def produce(bootstrap_servers: str, topic: str, messages: list[bytes]) -> None:
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "message.max.bytes": 10 * 1_048_576})
    for message in messages:
        producer.produce(topic, message, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert not failures


# -- brokers that go away ----------------------------------------------------------------------------------------------


def test_a_broker_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    """The gateway is the same process all the time; a producer's records are all there at the end."""
    kafka = EmbeddedKafka(data_dir=tmp_path / "data", heap="-Xmx256m")
    delivered: list[bytes] = []

    def on_delivery(error: object, message: Any) -> None:
        assert error is None
        delivered.append(message.value())

    kafka.start()
    try:
        kafka.create_topic("orders")
        with lone_gateway(tmp_path, kafka.bootstrap_servers) as gateway:
            servers = {"bootstrap.servers": gateway.bootstrap_servers}
            producer = Producer({**servers, "enable.idempotence": True, "log_level": 0})
            for number in range(100):
                producer.produce("orders", b"before %d" % number, on_delivery=on_delivery)
            assert producer.flush(60) == 0

            kafka.stop()
            for number in range(100):
                producer.produce("orders", b"while away %d" % number, on_delivery=on_delivery)
            with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT|_ALL_BROKERS_DOWN"):
                AdminClient({**servers, "log_level": 0}).list_topics(timeout=3)
            assert len(delivered) == 100

            kafka.start()
            assert producer.flush(60) == 0
            assert len(set(delivered)) == 200
            assert watermarks(gateway, "orders") == (0, 200)
            assert gateway.terminate() == 0
            log = gateway.log_path.read_text()
            assert "Traceback" not in log
            assert log.count("disconnected: ") < 100
    finally:
        kafka.stop()


def test_a_gateway_without_brokers_says_so(tmp_path: Path) -> None:
    gateway = lone_gateway(tmp_path, "127.0.0.1:1")
    with pytest.raises(gateway.error, match="could not connect to broker"):
        gateway.start()
