"""Which requests a source waits for: those that somebody waits for, and the others after a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sharegroup.protocol.share_partition_requests import AcknowledgeRequest, FetchRequest
from sharegroup.topics.client_settings import python_properties
from sharegroup.types import AcknowledgementBatch, AcknowledgeType
from sharegroup.watch.log_poll import LogPoll
from sharegroup.watch.request_clock import RequestClock

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from sharegroup.testkit.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

LONG_MS = 60_000
NAMED = ("1", "g", "t", "id", 0, "m", 1)
AWAITED = FetchRequest(*NAMED, "me", max_records=1).encode()
NOT_AWAITED = AcknowledgeRequest(*NAMED, batches=(AcknowledgementBatch(0, 0, (AcknowledgeType.ACCEPT,)),)).encode()


@pytest.fixture
def clock(kafka: EmbeddedKafka, new_topic: NewTopic) -> Iterator[tuple[RequestClock, str]]:
    topic, poll = new_topic(2), LogPoll(python_properties(kafka.bootstrap_servers, {}))
    clock = RequestClock(poll, topic, LONG_MS)
    clock.observe(int(time.time() * 1000), {})
    yield clock, topic
    clock.close()
    poll.close()


def send(producer: KafkaProducer, topic: str, partition: int, value: bytes) -> None:
    producer.send(topic, value, partition=partition).get(30)


def test_what_nobody_waits_for_lingers(clock: tuple[RequestClock, str], producer: KafkaProducer) -> None:
    watched, topic = clock
    assert not watched.wait({}, 100, 400)
    send(producer, topic, 0, NOT_AWAITED)
    send(producer, topic, 1, b"no row at all")
    assert watched.wait({}, LONG_MS)
    begin = time.monotonic()
    assert watched.wait({}, LONG_MS, 400)
    assert time.monotonic() - begin >= 0.4
    assert not watched.wait({0: 1, 1: 1}, 100, 400)


def test_what_somebody_waits_for_ends_it(clock: tuple[RequestClock, str], producer: KafkaProducer) -> None:
    watched, topic = clock
    for _ in range(100):
        send(producer, topic, 0, NOT_AWAITED)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(watched.wait, {}, LONG_MS, LONG_MS)
        send(producer, topic, 1, AWAITED)
        assert waiting.result(LONG_MS / 2_000)
        assert watched.wait({1: 0}, LONG_MS, LONG_MS)


def test_unread_requests_tell_their_topics(clock: tuple[RequestClock, str], producer: KafkaProducer) -> None:
    watched, topic = clock
    assert watched.topics_of_unread({}) == set()
    other = FetchRequest("2", "g", "t", "id-2", 0, "m", 1, "me", max_records=1).encode()
    for value in (AWAITED, b"no row at all", other):
        send(producer, topic, 0, value)
    assert watched.wait({}, LONG_MS)
    assert {"id"} <= watched.topics_of_unread({}) <= {"id", "id-2"}
    assert watched.wait({0: 2}, LONG_MS)
    assert watched.topics_of_unread({0: 2}) == {"id-2"}
    assert watched.topics_of_unread({0: 3}) == set()
