"""A reader of responses follows its key to another partition when the response topic gets more of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from kafka import TopicPartition
from kafka.structs import OffsetAndTimestamp

from sharegroup.kafka_clients.response_partitions import ResponsePartitions

TOPIC, KEY = "responses", b"7"
#: The newest row that was read, and a time before that by the margin for old metadata and wrong clocks.
READ_MS, FROM_MS = 1_000_000, 940_000


class Record(NamedTuple):
    offset: int
    timestamp: int


class Consumer:
    """kafka-python's, as far as it is used: partitions that begin at 3 and end at 9, but for `at`, by time."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.places: dict[int, int] = {}
        self.at: dict[int, int] = {}

    def partitions_for_topic(self, topic: str) -> set[int]:
        assert topic == TOPIC
        return set(range(self.partitions))

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.places = {partition: self.places.get(partition, -1) for _, partition in partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.places[partition.partition] = offset

    def seek_to_end(self, partition: TopicPartition) -> None:
        self.places[partition.partition] = 9

    def position(self, partition: TopicPartition) -> int:
        return self.places[partition.partition]

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 3)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 9)

    def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        return {p: OffsetAndTimestamp(self.at[ms], ms, -1) if ms in self.at else None for p, ms in times.items()}


def modulo(key: bytes, partitions: int) -> int:
    return int(key) % partitions


@pytest.fixture
def consumer() -> Consumer:
    """Key 7 is in partition 1 of 2 and of 3, and in partition 3 of 4."""
    return Consumer(2)


@pytest.fixture
def reads(consumer: Consumer) -> ResponsePartitions:
    reads = ResponsePartitions(TOPIC, KEY, modulo)
    assert reads.open(consumer)
    return reads


def test_a_topic_that_is_not_there_is_not_read() -> None:
    assert not ResponsePartitions(TOPIC, KEY).open(Consumer(0))


def test_a_reader_begins_at_the_end_of_its_partition(consumer: Consumer, reads: ResponsePartitions) -> None:
    reads.follow(consumer)
    assert consumer.places == {1: 9}


def test_a_key_that_stays_in_its_partition_is_read_there_alone(consumer: Consumer, reads: ResponsePartitions) -> None:
    consumer.partitions = 3
    reads.follow(consumer)
    assert consumer.places == {1: 9}


def test_a_partition_that_is_added_is_read_from_its_start(consumer: Consumer, reads: ResponsePartitions) -> None:
    reads.took(TopicPartition(TOPIC, 1), [Record(9, READ_MS)])
    consumer.places[1] = 10
    consumer.partitions = 4
    reads.follow(consumer)
    assert consumer.places == {1: 10, 3: 3}
    reads.follow(consumer)
    assert consumer.places == {1: 10, 3: 3}, "once"


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize(("at", "first"), [({FROM_MS: 5}, 5), ({}, 9)])
def test_a_partition_of_others_is_read_from_the_growth(at: dict[int, int], first: int, is_followed: bool) -> None:
    consumer, reads = Consumer(4), ResponsePartitions(TOPIC, KEY, modulo)
    consumer.at = at
    reads.open(consumer)
    reads.took(TopicPartition(TOPIC, 3), [Record(9, READ_MS)])
    if is_followed:
        reads.follow(consumer)
    reads.took(TopicPartition(TOPIC, 3), [Record(10, READ_MS + 50_000)])
    consumer.partitions = 6
    reads.follow(consumer)
    assert consumer.places == {3: 9, 1: first}


def test_who_has_read_nothing_yet_begins_at_the_end() -> None:
    consumer, reads = Consumer(4), ResponsePartitions(TOPIC, KEY, modulo)
    reads.open(consumer)
    consumer.partitions = 6
    reads.follow(consumer)
    assert consumer.places == {3: 9, 1: 9}


def test_the_next_consumer_goes_on_with_all_partitions(consumer: Consumer, reads: ResponsePartitions) -> None:
    consumer.partitions = 4
    reads.follow(consumer)
    reads.took(TopicPartition(TOPIC, 3), [Record(4, READ_MS)])
    other = Consumer(4)
    assert reads.open(other)
    assert other.places == {1: 9, 3: 5}
