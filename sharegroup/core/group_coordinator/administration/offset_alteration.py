"""AlterShareGroupOffsets (KIP-932): set the start offsets of share-partitions in an empty group.

An altered share-partition becomes `initializing` under the next group epoch. Its new start offset is in force when its
row in `share_partitions` is durable. The next load of the share-partition discards the old durable state, because that
state has a lower epoch than the row.

If a topic was deleted and created again, the request refers to the new topic. The state of the previous topic is
therefore deleted. A new topic id in a heartbeat does not have this effect, because a heartbeat may contain old metadata
(`discovery`).
"""

from collections.abc import Iterator

from sharegroup.core.group_coordinator.administration.admin_rules import check_alterable
from sharegroup.core.group_coordinator.administration.deletion import deleting_records
from sharegroup.core.group_coordinator.change import Change
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import SharePartitionRecord, SharePartitionStatus
from sharegroup.core.group_coordinator.results import CoordinatorResult, response_header
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import AlterOffsetsRequest, StartOffset, TopicMetadata
from sharegroup.protocol.rows.share_group_responses import AlterOffsetsResponse, PartitionError


def alter_offsets(group: GroupMetadata, request: AlterOffsetsRequest, now_ms: int) -> CoordinatorResult:
    """Set the valid start offsets in the request. If there are any, create the group if it does not exist.

    The response has a result for each share-partition: an error code if its offset is negative, or if the partition
    does not exist. Raises RequestError for a group that `check_alterable` rejects.
    """
    check_alterable(group)
    topics = {
        name: topic for name, topic in request.topics.items() if not group.is_deleted_topic(topic.topic_id, now_ms)
    }
    errors = [_error(offset, topics.get(offset.topic)) for offset in request.offsets]
    altered = [offset for offset, error in zip(request.offsets, errors, strict=True) if not error.error_code]
    change = Change(group)
    if altered:
        change.bump_group_epoch()
        for record in (*_deleting(group, request, altered), *_initializing(change.after, request, altered)):
            change.add(record)
    response = AlterOffsetsResponse(*response_header(request), partition_errors=tuple(errors))
    return CoordinatorResult(*change.records(), response=response)


def _error(offset: StartOffset, topic: TopicMetadata | None) -> PartitionError:
    if topic is None or not 0 <= offset.partition < topic.partitions:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        return PartitionError(offset.topic, offset.partition, int(code), message)
    if offset.start_offset < 0:
        message = f"StartOffset {offset.start_offset} is negative."
        return PartitionError(offset.topic, offset.partition, int(ErrorCode.INVALID_REQUEST), message)
    return PartitionError(offset.topic, offset.partition, int(ErrorCode.NONE), None)


def _initializing(
    group: GroupMetadata, request: AlterOffsetsRequest, altered: list[StartOffset]
) -> Iterator[SharePartitionRecord]:
    for topic, partition, start_offset in altered:
        yield SharePartitionRecord(
            group.group_id,
            topic,
            request.topics[topic].topic_id,
            partition,
            SharePartitionStatus.INITIALIZING,
            group.group_epoch,
            start_offset,
        )


def _deleting(
    group: GroupMetadata, request: AlterOffsetsRequest, altered: list[StartOffset]
) -> Iterator[SharePartitionRecord]:
    """Yield the records that begin the deletion of earlier topics' states.

    The earlier topics had the same names as the topics in `altered`, but other topic ids.
    """
    topic_ids = group.topic_ids()
    for topic in dict.fromkeys(offset.topic for offset in altered):
        if topic in topic_ids and topic_ids[topic] != request.topics[topic].topic_id:
            yield from deleting_records(group, topic_ids[topic])
