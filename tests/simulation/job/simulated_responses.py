"""A consumer of the response topic as `ResponsePartitions` uses it, with its assignment."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping

from kafka import TopicPartition
from kafka.structs import OffsetAndTimestamp

from sharegroup.kafka_clients.response_partitions import METADATA_AGE_MS
from tests.simulation.brokers.kafka_log import SimulatedKafka


def choose_partition(key: bytes, partitions: int) -> int:
    """Return the partition of the simulation's partitioner; see `SimulatedKafka.partition_of`."""
    return zlib.crc32(key) % partitions


class SimulatedResponses:
    """The consumer. Its metadata is as old as a real one's may be. `assigned` are the next offsets by partition."""

    def __init__(self, kafka: SimulatedKafka) -> None:
        self._kafka = kafka
        self.assigned: dict[int, int] = {}

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the partitions that it knows."""
        return set(range(self._kafka.count_of(topic, METADATA_AGE_MS)))

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these."""
        self.assigned = {partition: self.assigned.get(partition, 0) for _, partition in partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset."""
        self.assigned[partition.partition] = offset

    def seek_to_end(self, partition: TopicPartition) -> None:
        """Continue at the end."""
        self.assigned[partition.partition] = self.end_offsets([partition])[partition]

    def position(self, partition: TopicPartition) -> int:
        """Return the next offset."""
        return self.assigned[partition.partition]

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offsets."""
        return {at: self._kafka.topic(at.topic).partitions[at.partition].log_start_offset for at in partitions}

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log end offsets."""
        return {at: self._kafka.topic(at.topic).partitions[at.partition].log_end_offset for at in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset at or after a time."""
        found = {at: self._kafka.topic(at.topic).partitions[at.partition].first_at(ms) for at, ms in times.items()}
        return {
            at: None if offset is None else OffsetAndTimestamp(offset, times[at], -1) for at, offset in found.items()
        }
