"""Rows that Kafka rejects: a batch with such a row would be sent again and again, at each start."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError, NotEnoughReplicasError

from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients import kafka_clients
from sharegroup.kafka_clients.job_clock import BrokersTime, ClockUnknownError, JobClock
from sharegroup.kafka_clients.kafka_clients import KafkaRowProducer, KafkaUnavailableError, NotTimedByBrokersError
from sharegroup.protocol.rows.broadcasts import (
    BROADCAST_KEY,
    MemberLeftBroadcast,
    NewLeaderBroadcast,
    TopicDeletedBroadcast,
    decode_broadcast,
    to_row,
)
from sharegroup.protocol.rows.probe import PROBE
from sharegroup.protocol.rows.response_rows import decode_responses, encode_response
from sharegroup.protocol.rows.share_group_responses import HeartbeatResponse
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.types import AcquiredRange

RESPONSES, REQUESTS = "responses", "requests"
TOPIC_ID = "orders-0123456789abcde"


class Future:
    def __init__(self, error: KafkaError | None, on_get: Callable[[], None] = lambda: None) -> None:
        self._error, self._on_get = error, on_get

    def get(self) -> None:
        self._on_get()
        if self._error is not None:
            raise self._error


class Producer:
    """A kafka-python producer: it rejects rows above its own limit immediately, and fails on rows above the broker's.

    Each topic has three partitions. `sent` has (topic, partition, row), and "durable" for each awaited row.
    """

    def __init__(self, log: list[tuple[str, str, Any]], own_limit: int, broker_limit: int) -> None:
        self._log, self._own_limit, self._broker_limit = log, own_limit, broker_limit
        self._fatal: KafkaError | None = None
        self.sent: list[Any] = []

    def partitions_for(self, topic: str) -> set[int]:
        return {2, 0, 1}

    def send(self, topic: str, key: bytes, value: bytes, partition: int | None = None) -> Future:
        if len(value) > self._own_limit:
            raise MessageSizeTooLargeError("The message is too large when serialized")
        if len(value) > self._broker_limit:
            self._fatal = MessageSizeTooLargeError()
        if self._fatal is None:
            self._log.append((topic, key.decode(), json.loads(value)))
            self.sent.append((topic, partition, json.loads(value)))
        return Future(self._fatal, lambda: self.sent.append("durable"))

    def close(self, timeout: float | None = None) -> None:
        """Do nothing, because nothing is left to send."""


@pytest.fixture(params=["client", "broker"])
def row_producer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[KafkaRowProducer, list[Any]]:
    """Return a producer that rejects rows of more than 1,000 bytes, and what was produced."""
    log: list[tuple[str, str, Any]] = []
    limits = (1_000, 10_000) if request.param == "client" else (10_000, 1_000)
    monkeypatch.setattr(kafka_clients, "KafkaProducer", lambda **_: Producer(log, *limits))
    return KafkaRowProducer({}, RESPONSES, REQUESTS), log


def fetched(number: int, ranges: int = 1, **values: Any) -> dict[str, Any]:
    acquired = tuple(AcquiredRange(2 * n, 2 * n, 1) for n in range(ranges))
    named = f"f{number}", "me", "g", "orders", TOPIC_ID, 0, "m"
    return encode_response(replace(FetchResponse(*named, acquired=acquired, lock_deadline_ms=9), **values))


class TimedProducer:
    """A kafka-python producer of a topic with two partitions: appends carry the broker's time, or their own."""

    def __init__(self, append_ms: int | None) -> None:
        self._append_ms = append_ms
        self.sent: list[tuple[str, bytes, int]] = []

    def partitions_for(self, topic: str) -> set[int]:
        return {0, 1}

    def send(self, topic: str, key: bytes, value: bytes, partition: int, timestamp_ms: int) -> Any:
        self.sent.append((topic, value, partition))
        append_ms = timestamp_ms if self._append_ms is None else self._append_ms
        appended = SimpleNamespace(topic=topic, partition=partition, timestamp=append_ms)
        future = SimpleNamespace(get=lambda: appended)
        future.add_callback = lambda callback: callback(appended) or future
        return future


@pytest.mark.parametrize("method", ["send_probe", "refresh_clock"])
def test_probes_return_the_brokers_time(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = TimedProducer(1_700_000_000_000)
    monkeypatch.setattr(kafka_clients, "KafkaProducer", lambda **_: made)
    clock = JobClock(lambda: 7)
    getattr(KafkaRowProducer({}, RESPONSES, REQUESTS, clock), method)("others")
    assert made.sent == [("others", PROBE.encode(), 0), ("others", PROBE.encode(), 1)]
    assert clock.now() == BrokersTime(1_700_000_000_000, 1_700_000_000_000)
    assert not clock.is_probe_due()


def test_a_topic_with_producer_times_gives_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_clients, "KafkaProducer", lambda **_: TimedProducer(None))
    clock = JobClock(lambda: 7)
    producer = KafkaRowProducer({}, RESPONSES, REQUESTS, clock)
    with pytest.raises(NotTimedByBrokersError, match="set message\\.timestamp\\.type=LogAppendTime"):
        producer.send_probe("others")
    producer.refresh_clock("others")
    with pytest.raises(ClockUnknownError):
        clock.now()


def test_a_response_that_is_too_large_is_replaced_by_an_error(
    row_producer: tuple[KafkaRowProducer, list[Any]],
) -> None:
    producer, log = row_producer
    assignment = {"t" * 2_000: ["x", []]}
    heartbeat = HeartbeatResponse("h", "you", "g", member_id="m", member_epoch=3, assignment=assignment)
    producer.send([fetched(1), fetched(2, 300), encode_response(heartbeat), fetched(3), fetched(4, 200)], [])
    answers = {row["id"]: decode_responses(json.dumps(row).encode())[0] for _, _, row in log}
    assert sorted(answers) == ["f1", "f2", "f3", "f4", "h"]
    for number in (1, 3):
        assert encode_response(answers[f"f{number}"]) == fetched(number)
    for number in (2, 4):
        answer = answers[f"f{number}"]
        assert replace(answer, error_message=None) == FetchResponse(
            f"f{number}", "me", "g", "orders", TOPIC_ID, 0, "m", ErrorCode.UNKNOWN_SERVER_ERROR
        )
        assert "too large for Kafka" in (answer.error_message or "")
    assert replace(answers["h"], error_message=None) == HeartbeatResponse(
        "h", "you", "g", ErrorCode.UNKNOWN_SERVER_ERROR, member_id="m"
    )
    assert {(topic, key) for topic, key, _ in log} == {(RESPONSES, "me"), (RESPONSES, "you")}


def test_a_list_that_is_too_large_falls_apart(row_producer: tuple[KafkaRowProducer, list[Any]]) -> None:
    producer, log = row_producer
    rows = [{**fetched(number, ranges), "reply_to": "me[]"} for number, ranges in ((1, 1), (2, 300), (3, 1))]
    producer.send(rows, [])
    assert {row["id"]: row["error_code"] for _, _, row in log} == {"f1": 0, "f2": -1, "f3": 0}
    assert {key for _, key, _ in log} == {"me[]"}


def test_responses_to_a_reader_of_lists_are_one_record(row_producer: tuple[KafkaRowProducer, list[Any]]) -> None:
    producer, log = row_producer
    rows = [{**fetched(number), "reply_to": "me[]"} for number in (1, 2)]
    producer.send(rows, [])
    assert [(key, [row["id"] for row in listed]) for _, key, listed in log] == [("me[]", ["f1", "f2"])]


def test_a_row_that_was_too_large_is_recognised_the_next_time(row_producer: tuple[KafkaRowProducer, list[Any]]) -> None:
    producer, log = row_producer
    for number in range(2):
        producer.send([fetched(number, 300)], [])
    assert [(row["id"], row["error_code"]) for _, _, row in log] == [("f0", -1), ("f1", -1)]


def test_a_request_that_is_too_large_is_left_out(
    row_producer: tuple[KafkaRowProducer, list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    producer, log = row_producer
    producer.send([fetched(1)], [("g", '"first"'), ("g", json.dumps("x" * 2_000)), ("g", '"last"')])
    assert sorted(row for topic, _, row in log if topic == REQUESTS) == ["first", "last"]
    assert [topic for topic, _, _ in log] == [REQUESTS, REQUESTS, RESPONSES]
    assert "dropped a request for g: its 2002 bytes are too large for Kafka" in caplog.text


def test_not_even_the_error_need_fit(
    row_producer: tuple[KafkaRowProducer, list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    producer, log = row_producer
    producer.send([fetched(1, topic="t" * 2_000, group_id="g" * 2_000), fetched(2)], [])
    assert [row["id"] for _, _, row in log] == ["f2"]
    assert re.search(r"dropped an error response to me: its \d+ bytes are too large for Kafka", caplog.text)


def test_any_other_error_ends_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unavailable(Producer):
        def send(self, topic: str, key: bytes, value: bytes, partition: int | None = None) -> Future:
            return Future(NotEnoughReplicasError())

    monkeypatch.setattr(kafka_clients, "KafkaProducer", lambda **_: Unavailable([], 1, 1))
    with pytest.raises(KafkaUnavailableError):
        KafkaRowProducer({}, RESPONSES, REQUESTS).send([fetched(1)], [])


# -- the order, and the recipients -------------------------------------------------------------------------------------


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> tuple[KafkaRowProducer, Producer]:
    """Return a producer that accepts rows of any size, and where it sends them."""
    producer = Producer([], 10_000, 10_000)
    monkeypatch.setattr(kafka_clients, "KafkaProducer", lambda **_: producer)
    return KafkaRowProducer({}, RESPONSES, REQUESTS), producer


def as_sent(number: int) -> Any:
    return json.loads(json.dumps(fetched(number)))


def test_requests_are_durable_before_any_response_is_sent(roomy: tuple[KafkaRowProducer, Producer]) -> None:
    rows, producer = roomy
    rows.send([fetched(1), fetched(2)], [("g", '"one"'), ("h", '"two"')])
    assert producer.sent == [
        *[(REQUESTS, None, "one"), (REQUESTS, None, "two"), "durable", "durable"],
        *[(RESPONSES, None, as_sent(1)), (RESPONSES, None, as_sent(2)), "durable", "durable"],
    ]


def test_broadcasts_reach_every_partition_before_the_requests_are_sent(
    roomy: tuple[KafkaRowProducer, Producer],
) -> None:
    """A gateway reads one partition; it must learn that a member left before its records are delivered to others."""
    rows, producer = roomy
    left = to_row(MemberLeftBroadcast("g", "m", 3))
    deleted = to_row(TopicDeletedBroadcast("g", TOPIC_ID))
    rows.send([fetched(1), left, deleted], [("g", '"release"')])
    assert producer.sent == [
        *[(RESPONSES, partition, row) for row in (left, deleted) for partition in range(3)],
        *["durable"] * 6,
        *[(REQUESTS, None, "release"), "durable"],
        *[(RESPONSES, None, as_sent(1)), "durable"],
    ]


def test_request_with_the_broadcast_key_reaches_every_partition(roomy: tuple[KafkaRowProducer, Producer]) -> None:
    rows, producer = roomy
    rows.send([], [("g", '"release"'), (BROADCAST_KEY, '"fence"'), ("g", '"configure"')])
    sent = [(None, "release"), *[(partition, "fence") for partition in range(3)], (None, "configure")]
    assert producer.sent == [(REQUESTS, *row) for row in sent] + ["durable"] * 5


def test_a_new_leader_is_announced_in_every_partition(roomy: tuple[KafkaRowProducer, Producer]) -> None:
    rows, producer = roomy
    rows.announce_leader()
    announced = NewLeaderBroadcast()
    assert decode_broadcast(json.dumps(producer.sent[0][2]).encode()) == announced
    row = to_row(announced)
    assert producer.sent == [(RESPONSES, partition, row) for partition in range(3)] + ["durable"] * 3


def test_responses_that_nobody_waits_for_are_not_sent(roomy: tuple[KafkaRowProducer, Producer]) -> None:
    rows, producer = roomy
    rows.send([fetched(1) | {"reply_to": ""}], [])
    assert producer.sent == []


def test_a_row_for_everybody_that_is_too_large_is_left_out(
    row_producer: tuple[KafkaRowProducer, list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    producer, log = row_producer
    producer.send([to_row(MemberLeftBroadcast("g" * 2_000, "m", 3)), fetched(1)], [])
    assert [row["id"] for _, _, row in log] == ["f1"]
    assert "is too large for partition 2" in caplog.text


def test_a_topic_without_metadata_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away(Producer):
        def partitions_for(self, topic: str) -> set[int]:
            raise KafkaTimeoutError("no metadata")

    monkeypatch.setattr(kafka_clients, "KafkaProducer", lambda **_: Away([], 10_000, 10_000))
    with pytest.raises(KafkaUnavailableError, match="no metadata"):
        KafkaRowProducer({}, RESPONSES, REQUESTS).announce_leader()
