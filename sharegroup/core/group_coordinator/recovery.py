"""A group from the rows of the tables alone, for a start without a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

from sharegroup.config import GroupConfig
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import (
    DeletedTopicRecord,
    GroupState,
    SessionRecord,
    ShareGroupRecord,
    SharePartitionStatus,
    TableRecord,
    TargetAssignmentMetadataRecord,
    TargetAssignmentRecord,
)
from sharegroup.core.group_coordinator.static_membership import session_timeout_ms
from sharegroup.core.group_coordinator.target_assignment import assigned


def load(group_id: str, rows: Iterable[TableRecord], now_ms: int, config: GroupConfig) -> GroupMetadata:
    """Replay rows (of each key at least the last one, tombstones included or not) and give members a fresh session.

    The three tables are not committed together, so a job that died between two commits leaves, say, a member with an
    epoch that its group has not reached. Epochs never go back: the group then starts above all of them, with an
    assignment epoch below, so that the first heartbeat makes the new assignment durable.

    Targets are not in the tables. The assignor makes them again from what each member was told last, which changes
    nothing where all had been told, and as little as can be elsewhere. When it ran is forgotten: it may run at once.
    """
    group = GroupMetadata(group_id)
    for row in rows:
        group.replay(row)
    for topic_id in _deleted_topics(group):
        group.replay(DeletedTopicRecord(topic_id, now_ms))
    told = {member_id: member.assignment for member_id, member in group.members.items()}
    if told:
        group.replay(TargetAssignmentMetadataRecord(config.assignor, None))
    for member_id, assignment in assigned(group, config, told).items():
        group.replay(TargetAssignmentRecord(member_id, assignment))
        group.replay(SessionRecord(member_id, now_ms + session_timeout_ms(group.members[member_id], config)))
    newest = _newest_epoch(group)
    if newest > group.group_epoch or _somebody_would_never_be_told(group) or _state(group) is not group.group_state:
        group.replay(ShareGroupRecord(group_id, newest + 1, group.assignment_epoch, _state(group)))
    return group


def _deleted_topics(group: GroupMetadata) -> list[str]:
    """The topics that are being deleted while another one has their name.

    Of any other share-partition that is being deleted the topic may well be there: its offsets were deleted.
    """
    living = group.topic_ids()
    return [
        topic_id
        for topic_id, records in group.share_partitions.items()
        if all(record.status is SharePartitionStatus.DELETING for record in records.values())
        and living.get(next(iter(records.values())).topic, topic_id) != topic_id
    ]


def _newest_epoch(group: GroupMetadata) -> int:
    members = (member.member_epoch for member in group.members.values())
    states = (record.state_epoch for partitions in group.share_partitions.values() for record in partitions.values())
    return max(group.group_epoch, *members, *states, 0)


def _somebody_would_never_be_told(group: GroupMetadata) -> bool:
    """A member that is at the assignment epoch already learns of no other assignment."""
    return any(
        member.member_epoch >= group.assignment_epoch and member.assignment != group.targets[member_id]
        for member_id, member in group.members.items()
    )


def _state(group: GroupMetadata) -> GroupState:
    if group.members:
        return GroupState.STABLE
    return GroupState.DEAD if group.group_state is GroupState.DEAD else GroupState.EMPTY
