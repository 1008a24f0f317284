"""Recovery of a group from the tables when the job starts without a checkpoint."""

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
from sharegroup.core.group_coordinator.target_assignment import compute_targets


def load_group(group_id: str, rows: Iterable[TableRecord], now_ms: int, config: GroupConfig) -> GroupMetadata:
    """Return the group that its rows describe, with a new session for each member.

    `rows` must include the last row of each key. Tombstones may be left out.

    The tables are not committed together. If a job stopped between two commits, the rows may be inconsistent: for
    example, a member may have a higher epoch than its group. In this case the group starts with a group epoch above all
    stored epochs, because epochs must never decrease. The assignment epoch stays lower, so the assignor runs again, and
    members get its result with a new epoch.

    Target assignments are not stored. The assignor computes them again from the assignments that members received. If
    every member had received its target, nothing changes. Otherwise as little as possible changes. The time of the last
    run is not stored either, so the assignor may run immediately.
    """
    group = GroupMetadata(group_id)
    for row in rows:
        group.replay(row)
    for topic_id in _deleted_topics(group):
        group.replay(DeletedTopicRecord(topic_id, now_ms))
    received = {member_id: member.assignment for member_id, member in group.members.items()}
    if received:
        group.replay(TargetAssignmentMetadataRecord(config.assignor, None))
    for member_id, assignment in compute_targets(group, config, received).items():
        group.replay(TargetAssignmentRecord(member_id, assignment))
        group.replay(SessionRecord(member_id, now_ms + session_timeout_ms(group.members[member_id], config)))
    newest = _newest_epoch(group)
    if newest > group.group_epoch or _has_unreachable_target(group) or _state(group) is not group.group_state:
        group.replay(ShareGroupRecord(group_id, newest + 1, group.assignment_epoch, _state(group)))
    return group


def _deleted_topics(group: GroupMetadata) -> list[str]:
    """Return the ids of topics whose share-partitions are all DELETING and whose name now belongs to another topic id.

    Without another topic of this name, the topic may still exist: perhaps only the group's offsets were deleted.
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


def _has_unreachable_target(group: GroupMetadata) -> bool:
    """Return whether any member has another assignment than its target, although its epoch is the assignment epoch.

    Such a member would never receive its target, because a member receives a new assignment only with a new epoch.
    """
    return any(
        member.member_epoch >= group.assignment_epoch and member.assignment != group.targets[member_id]
        for member_id, member in group.members.items()
    )


def _state(group: GroupMetadata) -> GroupState:
    if group.members:
        return GroupState.STABLE
    return GroupState.DEAD if group.group_state is GroupState.DEAD else GroupState.EMPTY
