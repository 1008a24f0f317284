"""Log offsets and topic descriptions from the brokers, for the threads of the job."""

from collections.abc import Collection, Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaConnectionError

from sharegroup.errors import ErrorCode
from sharegroup.job.logs.topic_identities import TopicDescription
from sharegroup.kafka_clients.connections.log_offsets import EARLIEST, LATEST, LogOffsetsClient
from sharegroup.kafka_clients.connections.loop_thread import LoopThread
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError
from sharegroup.kafka_clients.kafka_clients import offsets_consumer
from sharegroup.protocol.topic_ids import NO_TOPIC_ID, topic_id_text
from sharegroup.types import is_topic_name

_WAITER_BYTES = 65_536
_NO_RECORD = -1


class LogPoll:
    """Queries the leaders of topic partitions; `settings` are kafka-python's.

    Log offsets are returned only for leaders that respond. A leader that does not respond delays one call by up to 2 s.
    Afterwards its partitions are left out without a delay until it responds again.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._loop = LoopThread("log offsets")
        self._client = LogOffsetsClient(settings)

    def ends(self, partitions: Collection[TopicPartition], read_committed: bool = False) -> dict[TopicPartition, int]:
        """Return log end offsets, or last stable offsets if `read_committed` is True."""
        return self._offsets(dict.fromkeys(partitions, LATEST), read_committed)

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def leader_epochs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return, for each log, the epoch of the leader that reported its newest end offset.

        Unknown epochs are left out.
        """
        return self._client.leader_epochs(partitions)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return, for each log, the end offset of the given leader epoch, as OffsetForLeaderEpoch does."""
        return self._loop.run(self._client.fetch_epoch_ends(epochs)) if epochs else {}

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return, for each partition, the offset of the first record whose timestamp is the given time (ms) or later.

        The offset is None if there is no such record.
        """
        found = self._offsets(times)
        return {partition: None if offset == _NO_RECORD else offset for partition, offset in found.items()}

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return all partitions of a topic; none if it does not exist.

        Raises KafkaConnectionError if no broker responds.
        """
        (found,) = self._topics([topic])
        return sorted(TopicPartition(topic, partition.partition_index) for partition in found.partitions)

    def describe(self, topics: Collection[str]) -> dict[str, TopicDescription | None]:
        """Describe topics; a topic that does not exist maps to None. Topics without a usable response are left out.

        Raises KafkaConnectionError if no broker responds.
        """
        names = [name for name in topics if is_topic_name(name)]
        return {
            topic.name: None if topic.error_code else _description(topic)
            for topic in (self._topics(names) if names else ())
            if topic.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        }

    def forget(self, topics: Collection[str]) -> None:
        """Discard the stored data of topics whose offsets are no longer requested."""

        async def forget() -> None:
            self._client.remove_topics(topics)

        self._loop.run(forget())

    def waiter(self) -> KafkaConsumer:
        """Return a new consumer, with which the caller waits until a partition has unread committed records.

        Each of its fetches returns at most about 64 KiB.
        """
        limits = dict.fromkeys(("max_partition_fetch_bytes", "fetch_max_bytes"), _WAITER_BYTES)
        return offsets_consumer(self._settings, read_committed=True, **limits)

    def close(self) -> None:
        self._loop.close(self._client.close)

    def _offsets(self, times: Mapping[TopicPartition, int], read_committed: bool = False) -> dict[TopicPartition, int]:
        return self._loop.run(self._client.fetch_offsets(times, read_committed)) if times else {}

    def _topics(self, names: Collection[str]) -> list[Any]:
        try:
            return self._loop.run(self._client.fetch_topics(names))
        except UpstreamUnavailableError as error:
            raise KafkaConnectionError(f"no broker returned metadata: {error}") from error


def _description(topic: Any) -> TopicDescription:
    topic_id = topic.topic_id or NO_TOPIC_ID  # None from a broker without topic ids
    leaders = {p.partition_index: p.leader_id for p in topic.partitions if p.leader_id >= 0}
    return TopicDescription("" if topic_id == NO_TOPIC_ID else topic_id_text(topic_id), leaders)
