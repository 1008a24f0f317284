"""Log offsets, asked of the brokers by a consumer without a group."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import OffsetNotAvailableError

from sharegroup.errors import ErrorCode
from sharegroup.protocol.topic_ids import NO_TOPIC_ID, topic_id_text
from sharegroup.topics.kafka_clients import offsets_consumer
from sharegroup.watch.topic_identities import TopicDescription

_WAITER_BYTES = 65_536
#: How long a broker may take to say who leads.
_METADATA_TIMEOUT_MS = 5_000


class LogPoll:
    """Log offsets of topic partitions by a Kafka consumer without a group.

    For where logs start and end it asks up to `timeout_ms` (without one: as long as a request may take) while one of
    the partitions has no leader.
    """

    def __init__(self, settings: Mapping[str, Any], timeout_ms: int | None = None) -> None:
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._consumers: dict[bool, KafkaConsumer] = {}
        self._admin: KafkaAdminClient | None = None

    def ends(self, partitions: Collection[TopicPartition], read_committed: bool = False) -> dict[TopicPartition, int]:
        """Log end offsets, or last stable offsets, of all of these partitions. Raises KafkaError."""
        return self._of_all(self._consumer(read_committed).end_offsets, partitions)

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Log start offsets of all of these partitions. Raises KafkaError."""
        return self._of_all(self._consumer(False).beginning_offsets, partitions)

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time (ms) for each partition, None where there is none. Raises KafkaError.

        A broker may have to look for it in old segments: it has as long as a request may take.
        """
        found = self._consumer(False).offsets_for_times(dict(times)) if times else {}
        return {partition: None if at is None else at.offset for partition, at in found.items()}

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        return [TopicPartition(topic, p) for p in sorted(self._consumer(False).partitions_for_topic(topic) or ())]

    def describe(self, topics: Collection[str]) -> dict[str, TopicDescription | None]:
        """Each of these topics, None for one that is not there; one that the broker will not tell of is left out.

        Asked as an administrator: what a consumer asks for, the broker may create. Raises KafkaError.
        """
        if not topics:
            return {}
        if self._admin is None:
            self._admin = KafkaAdminClient(**{**self._settings, "request_timeout_ms": _METADATA_TIMEOUT_MS})
        described = self._admin.describe_topics(list(topics))
        return {
            topic["name"]: None if topic["error_code"] else _description(topic)
            for topic in described
            if topic["error_code"] in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        }

    def forget_leaders(self) -> None:
        """Connect anew: a consumer asks the leader that it knows on and on, and never forgets a topic."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers = {}

    def waiter(self) -> KafkaConsumer:
        """A new consumer that waits until a partition has something unread; it reads not much of it."""
        return offsets_consumer(self._settings, max_partition_fetch_bytes=_WAITER_BYTES, fetch_max_bytes=_WAITER_BYTES)

    def close(self) -> None:
        """Close the connections."""
        self.forget_leaders()
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _consumer(self, read_committed: bool) -> KafkaConsumer:
        if read_committed not in self._consumers:
            self._consumers[read_committed] = offsets_consumer(self._settings, read_committed)
        return self._consumers[read_committed]

    def _of_all(
        self,
        ask: Callable[[list[TopicPartition], int | None], dict[TopicPartition, int]],
        partitions: Collection[TopicPartition],
    ) -> dict[TopicPartition, int]:
        """kafka-python raises KeyError when a partition is so new that its leader does not know its offset yet."""
        if not partitions:
            return {}
        try:
            return ask(list(partitions), self._timeout_ms)
        except KeyError as error:
            raise OffsetNotAvailableError(f"no offset yet of {error}") from None


def _description(topic: Mapping[str, Any]) -> TopicDescription:
    topic_id = topic["topic_id"] or NO_TOPIC_ID  # None from a broker that knows no ids
    if not isinstance(topic_id, uuid.UUID):
        topic_id = uuid.UUID(topic_id)  # older versions of kafka-python give the text
    leaders = {p["partition_index"]: p["leader_id"] for p in topic["partitions"] if p["leader_id"] >= 0}
    return TopicDescription("" if topic_id == NO_TOPIC_ID else topic_id_text(topic_id), leaders)
