"""A reader of responses follows its key to another partition when partitions are added."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from kafka import TopicPartition
from kafka.structs import OffsetAndTimestamp

from sharegroup.kafka_clients.response_partitions import ResponsePartitions

TOPIC, KEY = "responses", b"7"
#: The time of the newest row that was read, and that time minus the margin for old metadata and clock differences.
READ_MS, FROM_MS = 1_000_000, 940_000


class Record(NamedTuple):
    offset: int
    timestamp: int


class Consumer:
    """A consumer whose partitions start at 3 and end at 9. `at` has the offsets for times."""

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
    """Return a consumer of 2 partitions. Key 7 is in partition 1 of 2 or 3, and in partition 3 of 4."""
    return Consumer(2)


@pytest.fixture
def reads(consumer: Consumer) -> ResponsePartitions:
    reads = ResponsePartitions(TOPIC, KEY, modulo)
    assert reads.start_reading(consumer)
    return reads


def test_missing_topic_is_not_read() -> None:
    assert not ResponsePartitions(TOPIC, KEY).start_reading(Consumer(0))


def test_reader_starts_at_the_end_of_its_partition(consumer: Consumer, reads: ResponsePartitions) -> None:
    reads.follow_partition_count(consumer)
    assert consumer.places == {1: 9}


def test_key_that_stays_in_its_partition_is_read_only_there(consumer: Consumer, reads: ResponsePartitions) -> None:
    consumer.partitions = 3
    reads.follow_partition_count(consumer)
    assert consumer.places == {1: 9}


def test_added_partition_is_read_from_its_start(consumer: Consumer, reads: ResponsePartitions) -> None:
    reads.record_positions(TopicPartition(TOPIC, 1), [Record(9, READ_MS)])
    consumer.places[1] = 10
    consumer.partitions = 4
    reads.follow_partition_count(consumer)
    assert consumer.places == {1: 10, 3: 3}
    reads.follow_partition_count(consumer)
    assert consumer.places == {1: 10, 3: 3}, "once"


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize(("at", "first"), [({FROM_MS: 5}, 5), ({}, 9)])
def test_existing_partition_is_read_from_the_change_on(at: dict[int, int], first: int, is_followed: bool) -> None:
    consumer, reads = Consumer(4), ResponsePartitions(TOPIC, KEY, modulo)
    consumer.at = at
    reads.start_reading(consumer)
    reads.record_positions(TopicPartition(TOPIC, 3), [Record(9, READ_MS)])
    if is_followed:
        reads.follow_partition_count(consumer)
    reads.record_positions(TopicPartition(TOPIC, 3), [Record(10, READ_MS + 50_000)])
    consumer.partitions = 6
    reads.follow_partition_count(consumer)
    assert consumer.places == {3: 9, 1: first}


def test_reader_without_rows_starts_at_the_end() -> None:
    consumer, reads = Consumer(4), ResponsePartitions(TOPIC, KEY, modulo)
    reads.start_reading(consumer)
    consumer.partitions = 6
    reads.follow_partition_count(consumer)
    assert consumer.places == {3: 9, 1: 9}


def test_next_consumer_continues_with_all_partitions(consumer: Consumer, reads: ResponsePartitions) -> None:
    consumer.partitions = 4
    reads.follow_partition_count(consumer)
    reads.record_positions(TopicPartition(TOPIC, 3), [Record(4, READ_MS)])
    other = Consumer(4)
    assert reads.start_reading(other)
    assert other.places == {1: 9, 3: 5}
