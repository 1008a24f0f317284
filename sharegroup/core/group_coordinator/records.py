"""Records of one share group: what a handler returns and `replay` applies (KIP-932, "Group metadata records").

Table records are rows of `share_groups`, `share_group_members`, `share_partitions` and `share_group_configs`: each is
the whole row, so the last one of a key is its state. Soft records change only the operator's own state: session
deadlines, which move with every heartbeat, target assignments, which the assignor makes again from what members were
told last, when it ran, and topics that are no more.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

#: Start offset of a share-partition whose topic is new to the group: share.auto.offset.reset decides.
BY_AUTO_OFFSET_RESET = -1
#: Start offset of a partition added to a topic that the group already reads: all of its records are new to the group.
FROM_THE_BEGINNING = 0


class GroupState(str, Enum):
    """State of a share group, as ShareGroupDescribe names it (KIP-932, "Share group states")."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class SharePartitionStatus(str, Enum):
    """Where a share-partition is in its life; only an initialized one is assigned to members."""

    INITIALIZING = "initializing"
    INITIALIZED = "initialized"
    DELETING = "deleting"


class TopicPartitions(NamedTuple):
    """Partitions of one topic, ascending."""

    topic: str
    topic_id: str
    partitions: tuple[int, ...]


#: A member's partitions, by topic in ascending order.
Assignment = tuple[TopicPartitions, ...]


class ShareGroupRecord(NamedTuple):
    """A row of `share_groups`. `assignment_epoch` is the group epoch that the target assignments were made for.

    A dead group has the row until all its share-partitions are deleted; the tombstone then takes it away.
    """

    group_id: str
    group_epoch: int
    assignment_epoch: int
    group_state: GroupState
    is_tombstone: bool = False


class ShareGroupMemberRecord(NamedTuple):
    """A row of `share_group_members`; a tombstone takes it away.

    `assignment` is what the member was told at `member_epoch`. `previous_member_epoch` (-1: not known) is accepted once
    more, from a member that did not get its last response. `group_instance_id` is the name of a static member, None of
    a dynamic one. `incarnation_id` is of the process that joined as the member last: "" when it has left for a restart,
    None when it did not say. `joined_ms` is when it took the place of another process, None when it took nobody's.
    """

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: Assignment
    previous_member_epoch: int = -1
    is_tombstone: bool = False
    group_instance_id: str | None = None
    incarnation_id: str | None = None
    joined_ms: int | None = None

    @property
    def is_static(self) -> bool:
        """Whether its identity outlives its processes (KIP-345)."""
        return self.group_instance_id is not None


class SharePartitionRecord(NamedTuple):
    """A row of `share_partitions`; a tombstone takes it away.

    `state_epoch` is the group epoch of its initialisation, which fences older state. `auto_offset_reset` is the group's
    share.auto.offset.reset when the row was made, where that decides (`start_offset` -1); None where it does not.
    """

    group_id: str
    topic: str
    topic_id: str
    partition: int
    status: SharePartitionStatus
    state_epoch: int
    start_offset: int
    auto_offset_reset: str | None = None
    is_tombstone: bool = False


class ShareGroupConfigRecord(NamedTuple):
    """A row of `share_group_configs`: a value that a request has set; None takes it away."""

    group_id: str
    config_name: str
    config_value: str | None


class SessionRecord(NamedTuple):
    """When a member has left unless it sends another heartbeat: milliseconds since the epoch. Soft.

    `reply_to` is whom the deadline was told to, for the member: itself, or a gateway. `others_until_ms` is the latest
    deadline that any other gateway was told before.
    """

    member_id: str
    deadline_ms: int
    reply_to: str = ""
    others_until_ms: int = 0


class TargetAssignmentRecord(NamedTuple):
    """What a member's assignment becomes with its next heartbeat. Soft."""

    member_id: str
    assignment: Assignment


class TargetAssignmentMetadataRecord(NamedTuple):
    """The targets are those of an assignor's run: by this one, at this time. None: it had nothing to assign. Soft."""

    assignor: str
    assignment_timestamp_ms: int | None


class InitializationRecord(NamedTuple):
    """Some share-partitions of a topic have been initialized since `since_ms`, and others are still to be. Soft."""

    since_ms: int


class DeletedTopicRecord(NamedTuple):
    """A topic that is no more, known since `time_ms`: old metadata does not bring it back. Soft."""

    topic_id: str
    time_ms: int


TableRecord = ShareGroupRecord | ShareGroupMemberRecord | SharePartitionRecord | ShareGroupConfigRecord
SoftRecord = (
    SessionRecord | TargetAssignmentRecord | TargetAssignmentMetadataRecord | InitializationRecord | DeletedTopicRecord
)
Record = TableRecord | SoftRecord
