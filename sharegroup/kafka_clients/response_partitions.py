"""The partitions of the response topic that a reader reads, also when partitions are added.

Writers choose a row's partition from its key and the number of partitions that they know. An administrator may add
partitions at any time, and each client notices it at a different time, within `METADATA_AGE_MS`. A reader then also
reads the new partition of its key, from the time of the change on. It continues with the previous partition, because
writers that have not noticed the change still use it. A row that is in both is read twice, as any response may be.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.partitioner.default import murmur2

from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

#: Maximum age of the number of partitions that clients of the job's topics use, in ms.
METADATA_AGE_MS = 5_000
#: Where a reader continues whose position retention has deleted: at the end, because nobody waits for older responses.
OFFSET_RESET = "latest"
#: How far before the last row that was read from the unchanged topic a new partition is read, in ms. It covers old
#: metadata of the clients and different clocks of brokers.
_MARGIN_MS = 60_000


def responses_consumer(settings: ClientSettings) -> KafkaConsumer:
    """Return a consumer of response rows without partitions. Raises KafkaError."""
    settings = {"metadata_max_age_ms": METADATA_AGE_MS, **settings}
    return KafkaConsumer(
        **settings, group_id=None, enable_auto_commit=False, auto_offset_reset=OFFSET_RESET, fetch_max_wait_ms=500
    )


def choose_partition(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner chooses for a key."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


class ResponsePartitions:
    """Assigns the partitions of one key to a consumer. All methods raise KafkaError.

    `positions` are the next offsets of these partitions, which the next consumer continues from. `choose` is the
    partitioner.
    """

    def __init__(self, topic: str, key: bytes, choose: Callable[[bytes, int], int] = choose_partition) -> None:
        self._topic, self._key, self._choose = topic, key, choose
        self._count = 0
        self._read_ms = self._grown_after_ms = -1
        self.positions: dict[TopicPartition, int] = {}

    def start_reading(self, consumer: KafkaConsumer) -> bool:
        """Start reading where the previous consumer stopped, or at the end of the key's partition.

        Return whether the topic exists. The end is resolved now and not at the first poll, because a response may be
        written before it.
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
        """Also read the new partition of the key if partitions were added."""
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
            " from %(partitions)s",
            LogFields(
                topic=self._topic,
                count=count,
                previous_count=before,
                member=self._key.decode(errors="replace"),
                partitions=", ".join(f"{partition.partition}" for partition in sorted(self.positions)),
            ),
        )

    def record_positions(self, partition: TopicPartition, records: Iterable[Any]) -> None:
        """Update the positions after records were read."""
        for record in records:
            self.positions[partition] = record.offset + 1
            self._read_ms = max(self._read_ms, record.timestamp)
            if self._grown_after_ms < 0:  # the first row: no partitions had been added at its poll
                self._grown_after_ms = self._read_ms

    def _first_offset(self, consumer: KafkaConsumer, home: TopicPartition) -> int:
        """Return the offset to start from: before the change, the new partition had no rows for this key."""
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
