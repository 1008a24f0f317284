"""Deletion of offsets (DeleteShareGroupOffsets), groups (DeleteGroups) and the state of deleted topics (KIP-932).

The state of share-partitions is deleted in two steps. The first step marks their rows as `deleting`. The second step
deletes the states and removes the rows:

    request                       share_partition query                     group coordinator
    rows become `deleting`  --->  unloads, writes a Tombstone record  --->  notice `deleted`: the rows are removed
                                  and sends the notice

For clients, the deletion is complete after the first step. If the job stops before the second step is complete, it
finds the `deleting` rows after its restart and starts the second step again. That is harmless, because an additional
tombstone, or a notice for a removed row, changes nothing. During the deletion, a member may subscribe to the topic, or
an administrator may alter its offsets. The topic's share-partitions then become `initializing` under the next epoch,
which also discards their old state. The notice of the deletion then has no effect, because it contains the old epoch.

A deleted group is dead immediately. Its row is removed together with the row of its last share-partition.

The state of a deleted topic (notice `topic_deleted`) is deleted in the same two steps, while the group may have
members. The share-partitions are no longer assignable, so members receive an assignment without them after the next run
of the assignor. The group keeps the id of the deleted topic for some time and ignores it in heartbeats, because members
send it until they refresh their metadata.
"""

from collections.abc import Iterable, Iterator

from sharegroup.core.group_coordinator.administration.admin_rules import check_deletable
from sharegroup.core.group_coordinator.change import Change
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import (
    DeletedTopicRecord,
    GroupState,
    ShareGroupRecord,
    SharePartitionRecord,
    SharePartitionStatus,
)
from sharegroup.core.group_coordinator.results import CoordinatorResult, response_header
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import DeleteGroupRequest, DeleteOffsetsRequest
from sharegroup.protocol.rows.share_group_responses import DeleteGroupResponse, DeleteOffsetsResponse, TopicError


def delete_offsets(group: GroupMetadata, request: DeleteOffsetsRequest) -> CoordinatorResult:
    """Delete the group's offsets for the topics of the request.

    The response has a result for each topic: UNKNOWN_TOPIC_OR_PARTITION if the group has no share-partitions of the
    topic. A topic that is already being deleted is not an error. Raises RequestError for a group that `check_deletable`
    rejects.
    """
    check_deletable(group)
    change = Change(group)
    topic_ids = group.topic_ids()
    for topic_id in (topic_ids[topic] for topic in request.topic_names if topic in topic_ids):
        for record in deleting_records(group, topic_id):
            change.add(record)
    known = {record.topic for records in group.share_partitions.values() for record in records.values()}
    errors = tuple(_topic_error(topic, topic in known) for topic in dict.fromkeys(request.topic_names))
    response = DeleteOffsetsResponse(*response_header(request), topic_errors=errors)
    return CoordinatorResult(*change.records(), response=response)


def delete_group(group: GroupMetadata, request: DeleteGroupRequest) -> CoordinatorResult:
    """Delete the group, but not its configs. Raises RequestError for a group that `check_deletable` rejects."""
    check_deletable(group)
    change = Change(group)
    for topic_id in group.share_partitions:
        for record in deleting_records(group, topic_id):
            change.add(record)
    _bury(change)
    return CoordinatorResult(*change.records(), response=DeleteGroupResponse(*response_header(request)))


def remove_deleted(group: GroupMetadata, share_partitions: Iterable[tuple[str, int, int]]) -> CoordinatorResult:
    """Remove the rows of share-partitions whose tombstones are durable.

    Each share-partition is (topic id, partition, state_epoch). It is skipped if its row was removed before, or if the
    share-partition was initialized again after the deletion. If the group is dead and none of its share-partitions is
    left, its own row is removed too.
    """
    change = Change(group)
    for topic_id, partition, state_epoch in share_partitions:
        record = group.share_partitions.get(topic_id, {}).get(partition)
        if record and record.status is SharePartitionStatus.DELETING and record.state_epoch == state_epoch:
            change.add(record._replace(is_tombstone=True))
    if change.after is not group and group.group_state is GroupState.DEAD:
        _bury(change)
    return CoordinatorResult(*change.records())


def delete_topics(group: GroupMetadata, topic_ids: Iterable[str], now_ms: int) -> CoordinatorResult:
    """Begin the deletion of the share-partitions of deleted topics.

    The topic ids are stored, so that heartbeats with old metadata cannot add the topics again. If the group has
    share-partitions of the topics, the group epoch rises. The assignor then runs again, and members receive an
    assignment without these share-partitions. A repeated call changes nothing.
    """
    change = Change(group)
    for topic_id in topic_ids:
        if not change.after.is_deleted_topic(topic_id, now_ms):
            change.add(DeletedTopicRecord(topic_id, now_ms))
        for record in deleting_records(group, topic_id):
            change.add(record)
    records, _ = change.records()
    if records:
        change.bump_group_epoch()
    return CoordinatorResult(*change.records())


def deleting_records(group: GroupMetadata, topic_id: str) -> Iterator[SharePartitionRecord]:
    """Yield the records that begin the deletion of a topic's share-partitions."""
    for record in group.current_partitions(topic_id).values():
        yield record._replace(status=SharePartitionStatus.DELETING)


def _topic_error(topic: str, is_known: bool) -> TopicError:
    if is_known:
        return TopicError(topic, int(ErrorCode.NONE), None)
    code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
    return TopicError(topic, int(code), message)


def _bury(change: Change) -> None:
    """Mark the group as dead, and remove its row if it has no share-partitions left."""
    group = change.after
    is_tombstone = not group.share_partitions
    change.add(
        ShareGroupRecord(group.group_id, group.group_epoch, group.assignment_epoch, GroupState.DEAD, is_tombstone)
    )
