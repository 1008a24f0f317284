"""Start offsets of share-partitions: DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError

from sharegroup.kafka_clients.admin.brokers import Brokers
from sharegroup.kafka_clients.admin.errors import check, error_of
from sharegroup.kafka_clients.admin.results import Coordinator, ShareGroupOffset
from sharegroup.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
)

Offsets = dict[TopicPartition, ShareGroupOffset]


def list_offsets(
    brokers: Brokers, group_ids: Collection[str], partitions: Iterable[TopicPartition] | None
) -> dict[str, Offsets | KafkaError]:
    """Return {group: its offsets or its error}. If `partitions` is None, all partitions of a group are included."""
    wanted = None if partitions is None else _by_topic(partitions)

    def exchange(coordinator: Coordinator, ids: list[str]) -> dict[str, Offsets | KafkaError]:
        request = DescribeShareGroupOffsetsRequest(groups=[_request_group(group_id, wanted) for group_id in ids])
        response = brokers.request_once(request, coordinator.node_id)
        return {group.group_id: _offsets(group) for group in response.groups}

    return brokers.request_coordinators(group_ids, exchange)


def alter_offsets(
    brokers: Brokers, group_id: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, KafkaError | None]:
    """Set start offsets. Return {partition: error}, None for offsets that were set.

    Raises KafkaError if the whole request fails.
    """
    kind = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    topics = [
        kind(
            topic_name=topic,
            partitions=[
                kind.AlterShareGroupOffsetsRequestPartition(
                    partition_index=partition, start_offset=offsets[TopicPartition(topic, partition)]
                )
                for partition in partitions
            ],
        )
        for topic, partitions in _by_topic(offsets).items()
    ]
    response = _ask_coordinator(brokers, AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics))
    return {
        TopicPartition(topic.topic_name, partition.partition_index): error_of(
            partition.error_code, partition.error_message
        )
        for topic in response.responses
        for partition in topic.partitions
    }


def delete_offsets(brokers: Brokers, group_id: str, topics: Collection[str]) -> dict[str, KafkaError | None]:
    """Delete the start offsets of topics. Return {topic: error}, None for topics whose offsets were deleted.

    Raises KafkaError if the whole request fails.
    """
    kind = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    request = DeleteShareGroupOffsetsRequest(
        group_id=group_id, topics=[kind(topic_name=topic) for topic in dict.fromkeys(topics)]
    )
    response = _ask_coordinator(brokers, request)
    return {topic.topic_name: error_of(topic.error_code, topic.error_message) for topic in response.responses}


def _ask_coordinator(brokers: Brokers, request: Any) -> Any:
    def exchange(coordinator: Coordinator, ids: list[str]) -> dict[str, Any]:
        response = brokers.request_once(request, coordinator.node_id)
        check(response.error_code, response.error_message)
        return {ids[0]: response}

    answer = brokers.request_coordinators([request.group_id], exchange)[request.group_id]
    if isinstance(answer, KafkaError):
        raise answer
    return answer


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(set(partitions)):
        topics.setdefault(topic, []).append(partition)
    return topics


def _request_group(group_id: str, topics: Mapping[str, list[int]] | None) -> Any:
    kind = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    if topics is None:
        return kind(group_id=group_id, topics=None)
    topic = kind.DescribeShareGroupOffsetsRequestTopic
    return kind(
        group_id=group_id, topics=[topic(topic_name=name, partitions=partitions) for name, partitions in topics.items()]
    )


def _offsets(group: Any) -> Offsets | KafkaError:
    """Return the group's offsets. If the group or one of its partitions has an error, return this error instead.

    A result that leaves out the failed partition would look complete.
    """
    errors = [error_of(group.error_code, group.error_message)]
    errors += [error_of(row.error_code, row.error_message) for topic in group.topics for row in topic.partitions]
    for error in errors:
        if error is not None:
            return error
    found = {
        TopicPartition(topic.topic_name, row.partition_index): _offset(row)
        for topic in group.topics
        for row in topic.partitions
    }
    return dict(sorted(found.items()))


def _offset(row: Any) -> ShareGroupOffset:
    if row.start_offset < 0:
        return ShareGroupOffset(None, None, None)
    return ShareGroupOffset(row.start_offset, _known(row.leader_epoch), _known(row.lag))


def _known(number: int) -> int | None:
    return None if number < 0 else number
