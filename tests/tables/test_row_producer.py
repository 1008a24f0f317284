"""Rows that Kafka does not take: a batch that holds one would be sent again and again, at each start."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaError, MessageSizeTooLargeError, NotEnoughReplicasError

from sharegroup.errors import ErrorCode
from sharegroup.protocol.response_rows import (
    ShareGroupResponse,
    SharePartitionResponse,
    decode_response,
    encode_response,
)
from sharegroup.spark import kafka_clients
from sharegroup.spark.kafka_clients import KafkaUnavailableError, RowProducer
from sharegroup.types import AcquiredRange

RESPONSES, REQUESTS = "responses", "requests"
TOPIC_ID = "orders-0123456789abcde"


class Future:
    def __init__(self, error: KafkaError | None) -> None:
        self._error = error

    def get(self) -> None:
        if self._error is not None:
            raise self._error


class Producer:
    """As kafka-python's: what is too large for itself it refuses at once, what is too large for the broker ends it."""

    def __init__(self, log: list[tuple[str, str, Any]], own_limit: int, broker_limit: int) -> None:
        self._log, self._own_limit, self._broker_limit = log, own_limit, broker_limit
        self._fatal: KafkaError | None = None

    def send(self, topic: str, key: bytes, value: bytes, partition: int | None = None) -> Future:
        if len(value) > self._own_limit:
            raise MessageSizeTooLargeError("The message is too large when serialized")
        if len(value) > self._broker_limit:
            self._fatal = MessageSizeTooLargeError()
        if self._fatal is None:
            self._log.append((topic, key.decode(), json.loads(value)))
        return Future(self._fatal)

    def close(self, timeout: float | None = None) -> None:
        """Nothing is left to be sent."""


Send = Callable[..., list[tuple[str, str, Any]]]


@pytest.fixture(params=["client", "broker"])
def row_producer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[RowProducer, list[Any]]:
    """Rows of more than 1,000 bytes are too large; and what was produced."""
    log: list[tuple[str, str, Any]] = []
    limits = (1_000, 10_000) if request.param == "client" else (10_000, 1_000)
    monkeypatch.setattr(kafka_clients, "KafkaProducer", lambda **_: Producer(log, *limits))
    return RowProducer({}, RESPONSES, REQUESTS), log


def fetched(number: int, ranges: int = 1, **values: Any) -> dict[str, Any]:
    acquired = tuple(AcquiredRange(2 * n, 2 * n, 1) for n in range(ranges))
    response = SharePartitionResponse("fetch", f"f{number}", "me", "g", "orders", TOPIC_ID, 0, "m", acquired=acquired)
    return encode_response(response._replace(lock_deadline_ms=9, **values))


def test_in_place_of_a_response_that_is_too_large_comes_an_error(row_producer: tuple[RowProducer, list[Any]]) -> None:
    producer, log = row_producer
    heartbeat = ShareGroupResponse(
        "heartbeat", "h", "you", "g", "m", member_epoch=3, assignment={"t" * 2_000: ["x", []]}
    )
    producer.send([fetched(1), fetched(2, 300), encode_response(heartbeat), fetched(3), fetched(4, 200)], [])
    answers = {row["id"]: decode_response(json.dumps(row).encode()) for _, _, row in log}
    assert sorted(answers) == ["f1", "f2", "f3", "f4", "h"]
    for number in (1, 3):
        assert encode_response(answers[f"f{number}"]) == fetched(number)
    for number in (2, 4):
        answer = answers[f"f{number}"]
        assert isinstance(answer, SharePartitionResponse)
        assert answer._replace(error_message=None) == SharePartitionResponse(
            "fetch", f"f{number}", "me", "g", "orders", TOPIC_ID, 0, "m", ErrorCode.UNKNOWN_SERVER_ERROR
        )
        assert "too large for Kafka" in (answer.error_message or "")
    assert answers["h"]._replace(error_message=None) == ShareGroupResponse(
        "heartbeat", "h", "you", "g", "m", ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert {(topic, key) for topic, key, _ in log} == {(RESPONSES, "me"), (RESPONSES, "you")}


def test_what_is_too_large_is_known_the_next_time(row_producer: tuple[RowProducer, list[Any]]) -> None:
    producer, log = row_producer
    for number in range(2):
        producer.send([fetched(number, 300)], [])
    assert [(row["id"], row["error_code"]) for _, _, row in log] == [("f0", -1), ("f1", -1)]


def test_a_request_that_is_too_large_is_left_out(
    row_producer: tuple[RowProducer, list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    producer, log = row_producer
    producer.send([fetched(1)], [("g", '"first"'), ("g", json.dumps("x" * 2_000)), ("g", '"last"')])
    assert sorted(row for topic, _, row in log if topic == REQUESTS) == ["first", "last"]
    assert [topic for topic, _, _ in log] == [REQUESTS, REQUESTS, RESPONSES]
    assert "a request of 2002 bytes is too large" in caplog.text


def test_not_even_the_error_need_fit(
    row_producer: tuple[RowProducer, list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    producer, log = row_producer
    producer.send([fetched(1, topic="t" * 2_000, group_id="g" * 2_000), fetched(2)], [])
    assert [row["id"] for _, _, row in log] == ["f2"]
    assert "left out: me" in caplog.text


def test_any_other_error_ends_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unavailable(Producer):
        def send(self, topic: str, key: bytes, value: bytes, partition: int | None = None) -> Future:
            return Future(NotEnoughReplicasError())

    monkeypatch.setattr(kafka_clients, "KafkaProducer", lambda **_: Unavailable([], 1, 1))
    with pytest.raises(KafkaUnavailableError):
        RowProducer({}, RESPONSES, REQUESTS).send([fetched(1)], [])
