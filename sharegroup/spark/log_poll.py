"""Log offsets, asked of the brokers by a consumer without a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import OffsetNotAvailableError

from sharegroup.spark.kafka_clients import offsets_consumer

_WAITER_BYTES = 65_536


class LogPoll:
    """Log offsets of topic partitions by a Kafka consumer without a group."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._consumers: dict[bool, KafkaConsumer] = {}

    def ends(self, partitions: Collection[TopicPartition], read_committed: bool = False) -> dict[TopicPartition, int]:
        """Log end offsets, or last stable offsets, of all of these partitions. Raises KafkaError."""
        return _of_all(self._consumer(read_committed).end_offsets, partitions)

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Log start offsets of all of these partitions. Raises KafkaError."""
        return _of_all(self._consumer(False).beginning_offsets, partitions)

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time (ms) for each partition, None where there is none."""
        found = self._consumer(False).offsets_for_times(dict(times)) if times else {}
        return {partition: None if at is None else at.offset for partition, at in found.items()}

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        return [TopicPartition(topic, p) for p in sorted(self._consumer(False).partitions_for_topic(topic) or ())]

    def waiter(self) -> KafkaConsumer:
        """A new consumer that waits until a partition has something unread; it reads not much of it."""
        return offsets_consumer(self._settings, max_partition_fetch_bytes=_WAITER_BYTES, fetch_max_bytes=_WAITER_BYTES)

    def close(self) -> None:
        """Close the connections."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers = {}

    def _consumer(self, read_committed: bool) -> KafkaConsumer:
        if read_committed not in self._consumers:
            self._consumers[read_committed] = offsets_consumer(self._settings, read_committed)
        return self._consumers[read_committed]


def _of_all(
    ask: Callable[[list[TopicPartition]], dict[TopicPartition, int]], partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """kafka-python raises KeyError when a partition is so new that its leader does not know its offset yet."""
    if not partitions:
        return {}
    try:
        return ask(list(partitions))
    except KeyError as error:
        raise OffsetNotAvailableError(f"no offset yet of {error}") from None
