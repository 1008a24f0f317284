"""AlterShareGroupOffsets (KIP-932): share-partitions of an empty group start again at given offsets.

An altered share-partition becomes `initializing` under the next group epoch. Its start offset is in force as soon as
that row is durable, because a later load finds a state of a lower epoch and starts again.

A topic that was created again under its name is another topic. A member may have old metadata, but an administrator
always means the new topic, so the group's state of the previous one is deleted.
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
    """Alter the valid offsets; the response reports each share-partition. An unknown group is created, empty.

    Raises RequestError: INVALID_GROUP_ID, NON_EMPTY_GROUP.
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
    """Yield the records that delete the state of previous topics with these names."""
    topic_ids = group.topic_ids()
    for topic in dict.fromkeys(offset.topic for offset in altered):
        if topic in topic_ids and topic_ids[topic] != request.topics[topic].topic_id:
            yield from deleting_records(group, topic_ids[topic])
