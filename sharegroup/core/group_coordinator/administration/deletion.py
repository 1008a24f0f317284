"""DeleteShareGroupOffsets, DeleteGroups (KIP-932) and deleted topics: states are forgotten, in two steps.

    request                       share_partition query                     group coordinator
    rows become `deleting`  --->  unloads, writes a Tombstone record  --->  notice `deleted`: the rows go
                                  and sends the notice

The first step is the deletion as far as anybody can see. A job that dies in between finds the `deleting` row and does
the second step again: a tombstone more, or a notice for a row that is gone, changes nothing. A topic that is subscribed
to or altered while it is still being deleted becomes `initializing` under the next epoch, which leaves its old state
behind too, and the notice of the deletion, which names the old epoch, comes to nothing.

A deleted group is dead at once, and its row goes with its last share-partition.

A topic that is no more (the notice `topic_deleted`) goes the same way while the group has members: its share-partitions
are not assignable any more, so each member's next heartbeat is answered with an assignment without them. Its id is
remembered, as members may name it in their heartbeats until they have looked at the metadata again.
"""

from __future__ import annotations

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
from sharegroup.core.group_coordinator.results import CoordinatorResult, named
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import DeleteGroupRequest, DeleteOffsetsRequest
from sharegroup.protocol.rows.share_group_responses import DeleteGroupResponse, DeleteOffsetsResponse, TopicError


def delete_offsets(group: GroupMetadata, request: DeleteOffsetsRequest) -> CoordinatorResult:
    """Delete what the group has of some topics, and tell of each topic; one that is being deleted already is fine.

    Raises RequestError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    check_deletable(group)
    change = Change(group)
    topic_ids = group.topic_ids()
    for topic_id in (topic_ids[topic] for topic in request.topic_names if topic in topic_ids):
        for record in deleting(group, topic_id):
            change.add(record)
    there = {record.topic for records in group.share_partitions.values() for record in records.values()}
    errors = tuple(_topic_error(topic, topic in there) for topic in dict.fromkeys(request.topic_names))
    response = DeleteOffsetsResponse(*named(request), topic_errors=errors)
    return CoordinatorResult(*change.records(), response=response)


def delete_group(group: GroupMetadata, request: DeleteGroupRequest) -> CoordinatorResult:
    """Delete the group; what was configured for it stays.

    Raises RequestError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    check_deletable(group)
    change = Change(group)
    for topic_id in group.share_partitions:
        for record in deleting(group, topic_id):
            change.add(record)
    _bury(change)
    return CoordinatorResult(*change.records(), response=DeleteGroupResponse(*named(request)))


def deleted(group: GroupMetadata, share_partitions: Iterable[tuple[str, int, int]]) -> CoordinatorResult:
    """The tombstone of each (topic id, partition, state_epoch) is durable: its row goes.

    A repeated notice, and one for a share-partition that was initialized anew since, change nothing.
    """
    change = Change(group)
    for topic_id, partition, state_epoch in share_partitions:
        record = group.share_partitions.get(topic_id, {}).get(partition)
        if record and record.status is SharePartitionStatus.DELETING and record.state_epoch == state_epoch:
            change.add(record._replace(is_tombstone=True))
    if change.after is not group and group.group_state is GroupState.DEAD:
        _bury(change)
    return CoordinatorResult(*change.records())


def topic_deleted(group: GroupMetadata, topic_ids: Iterable[str], now_ms: int) -> CoordinatorResult:
    """These topics are no more: their share-partitions go, and members are told with their next heartbeat.

    A repeated notice changes nothing.
    """
    change = Change(group)
    for topic_id in topic_ids:
        if not change.after.is_deleted_topic(topic_id, now_ms):
            change.add(DeletedTopicRecord(topic_id, now_ms))
        for record in deleting(group, topic_id):
            change.add(record)
    records, _ = change.records()
    if records:
        change.bump_group_epoch()
    return CoordinatorResult(*change.records())


def deleting(group: GroupMetadata, topic_id: str) -> Iterator[SharePartitionRecord]:
    """The records with which the deletion of a topic's share-partitions begins."""
    for record in group.known(topic_id).values():
        yield record._replace(status=SharePartitionStatus.DELETING)


def _topic_error(topic: str, is_there: bool) -> TopicError:
    if is_there:
        return TopicError(topic, int(ErrorCode.NONE), None)
    code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
    return TopicError(topic, int(code), message)


def _bury(change: Change) -> None:
    """The group is dead, and its row goes when nothing of it is left."""
    group = change.after
    is_gone = not group.share_partitions
    change.add(ShareGroupRecord(group.group_id, group.group_epoch, group.assignment_epoch, GroupState.DEAD, is_gone))
