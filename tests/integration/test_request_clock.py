"""Which requests a source waits for: those that somebody waits for, and the others after a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaProducer

from sharegroup.job.clock.request_clock import RequestClock
from sharegroup.job.clock.unread_requests import NO_DEMANDS, LingerRules
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, FetchRequest
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, WaitsFor
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

LONG_MS = 600_000
NAMED = ("1", "g", "t", "id", 0, "m", 1)
AWAITED = FetchRequest(*NAMED, "me", max_records=1).encode()
LINGERING = FetchRequest(*NAMED, "me", max_records=1, linger_ms=LONG_MS).encode()
NOT_AWAITED = AcknowledgeRequest(*NAMED, batches=(AcknowledgementBatch(0, 0, (AcknowledgeType.ACCEPT,)),)).encode()


@pytest.fixture
def clock(
    kafka: EmbeddedKafka, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[RequestClock, str]]:
    monkeypatch.setattr("sharegroup.job.clock.unread_requests.MAX_LINGER_MS", LONG_MS)
    for timeout in ("METADATA_TIMEOUT_S", "OFFSETS_TIMEOUT_S"):
        monkeypatch.setattr(f"sharegroup.kafka_clients.connections.log_offsets.{timeout}", LONG_MS / 1_000)
    topic, poll = new_topic(2), LogPoll(python_properties(kafka.bootstrap_servers, {}))
    clock = RequestClock(poll, topic, LONG_MS, LingerRules(1, 500))
    clock.observe(int(time.time() * 1000), {})
    yield clock, topic
    clock.close()
    poll.close()


def send(producer: KafkaProducer, topic: str, partition: int, value: bytes) -> None:
    producer.send(topic, value, partition=partition).get(30)


def until_seen(
    watched: RequestClock, waiting: Mapping[str, WaitsFor] = NO_DEMANDS, positions: Mapping[int, int] | None = None
) -> None:
    """A look at the broker takes a fifth of a second at the most, which may be too short on a busy machine."""
    end = time.monotonic() + LONG_MS / 1_000
    while not watched.is_due(positions or {}, waiting):
        assert time.monotonic() < end


def test_what_may_linger_does(clock: tuple[RequestClock, str], producer: KafkaProducer) -> None:
    watched, topic = clock
    assert not watched.wait({}, 100)
    send(producer, topic, 0, LINGERING)
    assert not watched.is_due({})
    unread: set[str] = set()
    end = time.monotonic() + LONG_MS / 1_000
    while not unread and time.monotonic() < end:
        assert not watched.wait({}, 200)
        unread |= watched.pop_unread_topics()
    assert unread == {"id"}
    assert not watched.is_due({})
    assert not watched.wait({0: 1}, 100)


def test_until_its_time_is_over(clock: tuple[RequestClock, str], producer: KafkaProducer) -> None:
    watched, topic = clock
    send(producer, topic, 0, NOT_AWAITED)
    assert watched.wait({}, LONG_MS)
    assert watched.is_due({})


def test_it_does_not_where_somebody_waits(clock: tuple[RequestClock, str], producer: KafkaProducer) -> None:
    watched, topic = clock
    send(producer, topic, 0, NOT_AWAITED)
    until_seen(watched, {"g\tid\t0": WaitsFor.ROOM})
    assert watched.wait({}, 0, {"g\tid\t0": WaitsFor.ROOM})


def test_what_somebody_waits_for_takes_it_along(clock: tuple[RequestClock, str], producer: KafkaProducer) -> None:
    watched, topic = clock
    for _ in range(100):
        send(producer, topic, 0, LINGERING)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(watched.wait, {}, LONG_MS)
        send(producer, topic, 1, AWAITED)
        assert waiting.result(LONG_MS / 2_000)
    until_seen(watched, positions={1: 0})


def test_where_nothing_lingers_all_is_due(kafka: EmbeddedKafka, new_topic: NewTopic, producer: KafkaProducer) -> None:
    topic, poll = new_topic(1), LogPoll(python_properties(kafka.bootstrap_servers, {}))
    clock = RequestClock(poll, topic, LONG_MS)
    clock.observe(int(time.time() * 1000), {})
    send(producer, topic, 0, NOT_AWAITED)
    assert clock.wait({}, LONG_MS)
    assert not clock.wait({0: 1}, 100)
    clock.close()
    poll.close()


def test_unread_requests_tell_their_topics(clock: tuple[RequestClock, str], producer: KafkaProducer) -> None:
    watched, topic = clock
    assert watched.pop_unread_topics() == set()
    other = FetchRequest("2", "g", "t", "id-2", 0, "m", 1, "me", max_records=1).encode()
    for value in (AWAITED, b"no row at all", other):
        send(producer, topic, 0, value)
    until_seen(watched)
    assert {"id"} <= watched.pop_unread_topics() <= {"id", "id-2"}
    until_seen(watched, positions={0: 2})
    assert watched.pop_unread_topics() == {"id-2"}
    assert watched.pop_unread_topics() == set()


def await_safe(watched: RequestClock, positions: Mapping[int, int]) -> None:
    """Until the safe time has come to now, with nothing unread."""
    begin_ms = int(time.time() * 1000)
    wait_until(
        lambda: watched.observe(int(time.time() * 1000), positions)[1] >= begin_ms, f"{positions} is all there is"
    )
    assert not watched.observe(int(time.time() * 1000), positions)[0]


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_end_of_a_transaction_is_no_request(
    kafka: EmbeddedKafka, clock: tuple[RequestClock, str], unique_name: Callable[[str], str], is_committed: bool
) -> None:
    """While it is open the safe time stands still: a row behind it may be an acknowledgement that is in time."""
    watched, topic = clock
    await_safe(watched, {})
    writer = KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=unique_name("tx"), transaction_timeout_ms=600_000
    )
    writer.init_transactions()
    writer.begin_transaction()
    send(writer, topic, 0, AWAITED)
    open_ms = int(time.time() * 1000)
    wait_until(lambda: not watched.observe(int(time.time() * 1000), {})[0], "nothing of it can be brought")
    assert watched.observe(int(time.time() * 1000), {})[1] <= open_ms
    if is_committed:
        writer.commit_transaction()
        until_seen(watched)
    else:
        writer.abort_transaction()
    writer.close()
    await_safe(watched, {0: 1} if is_committed else {})


def test_a_partition_that_is_added_is_watched(
    kafka: EmbeddedKafka, clock: tuple[RequestClock, str], producer: KafkaProducer
) -> None:
    watched, topic = clock
    await_safe(watched, {})
    kafka.admin_client().create_partitions({topic: 5})
    wait_until(lambda: len(producer.partitions_for(topic)) == 5, "the producer knows of it")
    send(producer, topic, 4, AWAITED)
    wait_until(lambda: watched.observe(int(time.time() * 1000), {})[0], "it is unread")
    until_seen(watched)
    await_safe(watched, {4: 1})
