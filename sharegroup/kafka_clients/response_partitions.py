"""Determines which partitions of the response topic a reader reads, also after partitions were added.

Writers choose a row's partition from its key and the number of partitions that they know. An administrator may add
partitions at any time, and each client notices the change at a different time, within `METADATA_AGE_MS`. When a reader
notices it, the reader starts to read the new partition of its key, from the time of the change on. It also continues to
read the previous partition, because writers that have not noticed the change still use it. A row that is in both
partitions, such as a broadcast, is read twice. Readers accept this, because any response may be read twice.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.partitioner.default import murmur2

from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: Maximum age, in ms, of the partition counts that clients of the job's topics use (`metadata.max.age.ms`).
METADATA_AGE_MS = 5_000
#: If retention has deleted the rows at a reader's position, the reader continues at the end of the log. Such old
#: responses are no longer needed by any request.
OFFSET_RESET = "latest"
#: If a key moves to a partition that already existed, reading of this partition starts at an earlier time. This time is
#: `_MARGIN_MS` before the last row that was read with the old partition count. The margin allows for outdated metadata
#: of writers and for differences between the clocks of brokers.
_MARGIN_MS = 60_000


def responses_consumer(settings: ClientSettings) -> KafkaConsumer:
    """Return a consumer for response rows that has no assigned partitions yet.

    Raises KafkaError if it cannot connect.
    """
    settings = {"metadata_max_age_ms": METADATA_AGE_MS, **settings}
    return KafkaConsumer(
        **settings, group_id=None, enable_auto_commit=False, auto_offset_reset=OFFSET_RESET, fetch_max_wait_ms=500
    )


def choose_partition(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner chooses for a key."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


class ResponsePartitions:
    """Assigns to a consumer all partitions that may contain rows of one key. All methods raise KafkaError.

    `choose` is the partitioner: it returns a partition for a key and a number of partitions.

    Attributes:
        positions: {partition: next offset to read}. A new consumer continues at these offsets.
    """

    def __init__(self, topic: str, key: bytes, choose: Callable[[bytes, int], int] = choose_partition) -> None:
        self._topic, self._key, self._choose = topic, key, choose
        self._count = 0
        self._read_ms = self._grown_after_ms = -1
        self.positions: dict[TopicPartition, int] = {}

    def start_reading(self, consumer: KafkaConsumer) -> bool:
        """Start reading where the previous consumer stopped, and return whether the topic exists.

        Without a previous consumer, start at the end of the key's partition. The end offset is determined now, because
        a response may be written before the consumer's first poll.
        """
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

    def follow_partition_count(self, consumer: KafkaConsumer) -> None:
        """If partitions were added to the topic, also read the partition to which the key now belongs."""
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
            "topic %(topic)s has %(count)d partitions instead of %(previous_count)d; responses to %(member)s are read"
            " from partitions %(partitions)s",
            LogFields(
                topic=self._topic,
                count=count,
                previous_count=before,
                member=self._key.decode(errors="replace"),
                partitions=", ".join(f"{partition.partition}" for partition in sorted(self.positions)),
            ),
        )

    def record_positions(self, partition: TopicPartition, records: Iterable[Any]) -> None:
        """Update `positions` after `records` of a partition were read."""
        for record in records:
            self.positions[partition] = record.offset + 1
            self._read_ms = max(self._read_ms, record.timestamp)
            if self._grown_after_ms < 0:  # the first row: no partitions had been added at its poll
                self._grown_after_ms = self._read_ms

    def _first_offset(self, consumer: KafkaConsumer, home: TopicPartition) -> int:
        """Return the offset from which to read `home`, the partition to which the key now belongs.

        A new partition is read from its start. A partition that already existed contains older rows, which belong to
        other keys. It is read from shortly before the time when partitions were added, or from its end if that time is
        not known.
        """
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
