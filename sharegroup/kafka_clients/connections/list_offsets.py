"""Builds ListOffsets and OffsetForLeaderEpoch requests, as a consumer sends them, and reads their responses."""

from collections.abc import Mapping
from typing import TypeVar

from kafka import TopicPartition
from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

#: Timestamps that stand for the start and the end of a log.
EARLIEST, LATEST = -2, -1
_CONSUMER, _NO_EPOCH = -1, -1

T = TypeVar("T")


def list_offsets_request(
    times: Mapping[TopicPartition, int],
    read_committed: bool = False,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
) -> ListOffsetsRequest:
    """Return a request for the offset of each partition's first record at or after a time.

    `times` is {partition: time in ms}; `EARLIEST` and `LATEST` request the start and the end of the log. With
    `read_committed`, the end is the last stable offset. A broker rejects a partition whose epoch in `leader_epochs`
    differs from the broker's leader epoch (KIP-320). It does not check an epoch of -1 or a missing epoch.
    """
    topic_of = ListOffsetsRequest.ListOffsetsTopic
    epochs = leader_epochs or {}
    wanted = {
        partition: topic_of.ListOffsetsPartition(
            partition_index=partition.partition,
            current_leader_epoch=epochs.get(partition, _NO_EPOCH),
            timestamp=time_ms,
        )
        for partition, time_ms in times.items()
    }
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=int(read_committed),
        topics=[topic_of(name=name, partitions=partitions) for name, partitions in _by_topic(wanted).items()],
    )


def read_offsets(answer: ListOffsetsResponse) -> dict[TopicPartition, int]:
    """Return {partition: offset}. The offset is -1 if there is no record at or after the requested time.

    Partitions with an error are left out.
    """
    return {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code
    }


def read_leader_epochs(answer: ListOffsetsResponse) -> dict[TopicPartition, int]:
    """Return {partition: leader epoch}.

    Partitions with an error or without an epoch are left out. Brokers before Kafka 2.1 send no epochs.
    """
    return {
        TopicPartition(topic.name, partition.partition_index): partition.leader_epoch
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code and partition.leader_epoch is not None and partition.leader_epoch >= 0
    }


def epoch_ends_request(epochs: Mapping[TopicPartition, int]) -> OffsetForLeaderEpochRequest:
    """Return a request for the end offset of a leader epoch in each partition (KIP-320).

    `epochs` is {partition: leader epoch}. Records below the end offset were written by leaders of this epoch or of
    earlier epochs.
    """
    topic_of = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    wanted = {
        partition: topic_of.OffsetForLeaderPartition(
            partition=partition.partition, current_leader_epoch=_NO_EPOCH, leader_epoch=epoch
        )
        for partition, epoch in epochs.items()
    }
    return OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER,
        topics=[topic_of(topic=name, partitions=partitions) for name, partitions in _by_topic(wanted).items()],
    )


def read_epoch_ends(answer: OffsetForLeaderEpochResponse) -> dict[TopicPartition, int]:
    """Return {partition: end offset of the requested epoch}.

    Partitions with an error, and partitions for which the broker does not know the end offset, are left out.
    """
    return {
        TopicPartition(topic.topic, partition.partition): partition.end_offset
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code and partition.end_offset >= 0
    }


def _by_topic(wanted: Mapping[TopicPartition, T]) -> dict[str, list[T]]:
    topics: dict[str, list[T]] = {}
    for partition, entry in wanted.items():
        topics.setdefault(partition.topic, []).append(entry)
    return topics
