"""The response topic gets more partitions while its readers read it: they hear every response all the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sharegroup.config import JobConfig
from sharegroup.gateway.job_client.response_reader import ResponseReader, decoded_rows
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.kafka_clients.kafka_clients import KafkaRowProducer
from sharegroup.kafka_clients.response_partitions import choose_partition
from sharegroup.kafka_clients.row_topics.row_channel import RowChannel, RowTopics
from sharegroup.protocol.rows.response_rows import encode_response
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from tests.harness.raw_member import RequestClient
from tests.integration.waiting import wait_until
from tests.params import thorough

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka

BEFORE, AFTER = 3, 5


def key_that(moves_to: Callable[[int], bool]) -> str:
    """A key that is in another partition of the grown topic, one for which this holds."""
    for number in itertools.count():
        key = f"reader-{number}".encode()
        before, after = choose_partition(key, BEFORE), choose_partition(key, AFTER)
        if before != after and moves_to(after):
            return key.decode()
    raise AssertionError


@pytest.fixture(params=["to a new partition", *thorough("to one that was there")])
def key(request: pytest.FixtureRequest) -> str:
    is_new = request.param == "to a new partition"
    return key_that(lambda partition: (partition >= BEFORE) == is_new)


@pytest.fixture
def topic(kafka: EmbeddedKafka, unique_name: Callable[[str], str]) -> str:
    name = unique_name("responses")
    kafka.create_topic(name, BEFORE, config={"message.timestamp.type": "LogAppendTime"})
    return name


@pytest.fixture
def job(kafka: EmbeddedKafka, topic: str) -> Iterator[KafkaRowProducer]:
    producer = KafkaRowProducer(python_properties(kafka.bootstrap_servers, {}), topic, topic)
    yield producer
    producer.close()


def respond(job: KafkaRowProducer, key: str, number: int) -> None:
    response = FetchResponse("", key, "g", "orders", "orders-id", 0, "m")
    job.send([encode_response(replace(response, id=str(number)))], [])


def grow(kafka: EmbeddedKafka, job: KafkaRowProducer, topic: str, key: str) -> int:
    """More partitions; responses all the while, until the job puts them into another partition. How many there were."""
    kafka.admin_client().create_partitions({topic: AFTER})
    numbers = itertools.count(1)

    def has_moved() -> bool:
        respond(job, key, next(numbers))
        return len(job._producer.partitions_for(topic)) == AFTER

    wait_until(has_moved, "the job knows of the new partitions")
    last = next(numbers)
    respond(job, key, last)
    return last


def test_a_member_hears_all(kafka: EmbeddedKafka, job: KafkaRowProducer, topic: str, key: str) -> None:
    channel = RowChannel(python_properties(kafka.bootstrap_servers, {}), RowTopics(topic, topic, topic), key)
    heard: set[str] = set()

    def hears(last: int) -> bool:
        heard.update(response.id for response in channel.poll(100))
        return heard == {str(number) for number in range(last + 1)}

    try:
        assert channel.open()
        respond(job, key, 0)
        wait_until(lambda: hears(0), "the first response")
        last = grow(kafka, job, topic, key)
        wait_until(lambda: hears(last), f"responses 0 to {last}")
    finally:
        channel.close()


def test_a_raw_client_hears_all(kafka: EmbeddedKafka, job: KafkaRowProducer, topic: str, key: str) -> None:
    names = {"share.group.requests.topic": topic, "share.partition.requests.topic": topic}
    config = JobConfig.model_validate({**names, "share.group.responses.topic": topic})
    client = RequestClient(kafka.bootstrap_servers, config)
    client.reply_to = key
    try:
        respond(job, key, 0)
        last = grow(kafka, job, topic, key)
        for number in range(last + 1):
            client.await_response(str(number))
    finally:
        client.close()


def test_a_gateway_hears_all(kafka: EmbeddedKafka, job: KafkaRowProducer, topic: str, key: str) -> None:
    heard: set[str] = set()
    listening: list[bool] = []

    def receive(records: object) -> None:
        heard.update(row.id for row in decoded_rows(records, key.encode()) if isinstance(row, FetchResponse))  # type: ignore[arg-type]

    settings = python_properties(kafka.bootstrap_servers, {})
    reader = ResponseReader(settings, topic, key.encode(), lambda: listening.append(True), receive)
    reader.start()
    try:
        wait_until(lambda: bool(listening), "the reader is there")
        respond(job, key, 0)
        wait_until(lambda: heard == {"0"}, "the first response")
        last = grow(kafka, job, topic, key)
        wait_until(lambda: heard == {str(number) for number in range(last + 1)}, f"responses 0 to {last}")
    finally:
        reader.stop()
        reader.join(30)
