"""Which partitions of the response topic a reader reads: the one that its key is in, also when the topic grows.

The writers choose a row's partition by its key and by the number of partitions that they know. An administrator may
give the topic more partitions at any time, and each client learns of it at a time of its own, within `METADATA_AGE_MS`.
So from then on a reader reads the new partition of its key, from the time of the growth on, and goes on with the
previous one, where writers that do not know yet still put its responses. A row that is in both is read twice, as any
response may be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.partitioner.default import murmur2

from sharegroup.kafka_clients.client_settings import ClientSettings

logger = logging.getLogger(__name__)

#: How old the number of partitions may be that a client of the job's topics works with, in ms.
METADATA_AGE_MS = 5_000
#: A new partition is read from so long before the latest row that was read while the topic had not grown, in ms: the
#: clients' metadata is old, and the clocks of two brokers differ.
_MARGIN_MS = 60_000


def responses_consumer(settings: ClientSettings) -> KafkaConsumer:
    """A consumer of response rows, which has no partition yet. Raises KafkaError."""
    settings = {"metadata_max_age_ms": METADATA_AGE_MS, **settings}
    return KafkaConsumer(
        **settings, group_id=None, enable_auto_commit=False, auto_offset_reset="latest", fetch_max_wait_ms=500
    )


def partition_of(key: bytes, partitions: int) -> int:
    """Where Kafka's default partitioner puts a key, by the number of partitions that the topic has now."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


class ResponsePartitions:
    """Assigns a consumer the partitions of one key. All methods raise KafkaError.

    `positions` are the next offsets of the partitions that it reads, kept for the next consumer. `choose` is the
    partitioner.
    """

    def __init__(self, topic: str, key: bytes, choose: Callable[[bytes, int], int] = partition_of) -> None:
        self._topic, self._key, self._choose = topic, key, choose
        self._count = 0
        self._read_ms = self._grown_after_ms = -1
        self.positions: dict[TopicPartition, int] = {}

    def open(self, consumer: KafkaConsumer) -> bool:
        """Begin to read, at the end of the key's partition, or where the consumer before was; whether the topic is
        there. The end is that of now, not of the first poll: a response may come before."""
        count = len(consumer.partitions_for_topic(self._topic) or ())
        if not count:
            return False
        if self.positions:
            consumer.assign(list(self.positions))
            for partition, offset in self.positions.items():
                consumer.seek(partition, offset)
        else:
            self._count = count
            home = self._home(count)
            consumer.assign([home])
            consumer.seek_to_end(home)
            self.positions[home] = int(consumer.position(home))
        return True

    def follow(self, consumer: KafkaConsumer) -> None:
        """Read the new partition of the key as well if the topic has grown."""
        count = len(consumer.partitions_for_topic(self._topic) or ())
        if count <= self._count:
            self._grown_after_ms = self._read_ms
            return
        home, before = self._home(count), self._count
        if home not in self.positions:
            self.positions[home] = self._first_offset(consumer, home)
            consumer.assign(list(self.positions))
            consumer.seek(home, self.positions[home])
        self._count = count
        logger.warning(
            "topic %s has %d partitions, %d before: responses to %s are read from %s",
            self._topic, count, before, self._key.decode(errors="replace"),
            ", ".join(f"{partition.partition}" for partition in sorted(self.positions)),
        )  # fmt: skip

    def took(self, partition: TopicPartition, records: Iterable[Any]) -> None:
        """Note records that were read."""
        for record in records:
            self.positions[partition] = record.offset + 1
            self._read_ms = max(self._read_ms, record.timestamp)
            if self._grown_after_ms < 0:  # the first row; the topic had not grown when it was polled for
                self._grown_after_ms = self._read_ms

    def _first_offset(self, consumer: KafkaConsumer, home: TopicPartition) -> int:
        """Nothing for this key was in the partition before the topic grew."""
        if home.partition >= self._count:
            return int(consumer.beginning_offsets([home])[home])
        if self._grown_after_ms >= 0:
            times = {home: max(0, self._grown_after_ms - _MARGIN_MS)}
            found = consumer.offsets_for_times(times)[home]
            if found is not None:
                return int(found.offset)
        return int(consumer.end_offsets([home])[home])

    def _home(self, count: int) -> TopicPartition:
        return TopicPartition(self._topic, self._choose(self._key, count))
