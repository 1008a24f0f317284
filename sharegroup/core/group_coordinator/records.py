"""The records of a share group, which handlers return and `replay` applies (KIP-932, "Group metadata records").

Table records are rows of `share_groups`, `share_group_members`, `share_partitions` and `share_group_configs`. Each is
the whole row, so the last record of a key is its state.

Soft records change only the operator's state and are not written to tables: session deadlines, which change with every
heartbeat; target assignments, which the assignor can compute again from the assignments that members received; the
time of the assignor's last run; and deleted topics.
"""

from enum import Enum
from typing import NamedTuple

#: Start offset of a share-partition of a topic that is new to the group: share.auto.offset.reset decides.
BY_AUTO_OFFSET_RESET = -1
#: Start offset of a partition that was added to a topic of the group: all of its records are new.
FROM_THE_BEGINNING = 0


class GroupState(str, Enum):
    """The state of a share group, named as in ShareGroupDescribe (KIP-932, "Share group states")."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class SharePartitionStatus(str, Enum):
    """The lifecycle of a share-partition. Only initialized ones are assigned to members."""

    INITIALIZING = "initializing"
    INITIALIZED = "initialized"
    DELETING = "deleting"


class TopicPartitions(NamedTuple):
    """Partitions of a topic, ascending."""

    topic: str
    topic_id: str
    partitions: tuple[int, ...]


#: A member's partitions by topic, in ascending order.
Assignment = tuple[TopicPartitions, ...]


class ShareGroupRecord(NamedTuple):
    """A row of `share_groups`. `assignment_epoch` is the group epoch of the current target assignments.

    A dead group keeps its row until all its share-partitions are deleted. A tombstone then removes the row.
    """

    group_id: str
    group_epoch: int
    assignment_epoch: int
    group_state: GroupState
    is_tombstone: bool = False


class ShareGroupMemberRecord(NamedTuple):
    """A row of `share_group_members`; a tombstone removes it.

    - `assignment`: what the member received at `member_epoch`.
    - `previous_member_epoch` (-1: unknown): accepted once more, from a member that did not get its last response.
    - `group_instance_id`: set for a static member, None for a dynamic one.
    - `incarnation_id`: the process that joined last as the member; "" after it left for a restart, None if not given.
    - `joined_ms`: when that process replaced another one; None if it replaced none.
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
        """Whether the member is static: its identity outlives its processes (KIP-345)."""
        return self.group_instance_id is not None


class SharePartitionRecord(NamedTuple):
    """A row of `share_partitions`; a tombstone removes it.

    `state_epoch` is the group epoch of the initialization and fences older state. `auto_offset_reset` is the group's
    share.auto.offset.reset at that time if it decides (`start_offset` is -1), else None.
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
    """A row of `share_group_configs`: a value that a request has set; None removes it."""

    group_id: str
    config_name: str
    config_value: str | None


class SessionRecord(NamedTuple):
    """A member's session deadline, in milliseconds since the epoch. Soft.

    `reply_to` is the receiver of the deadline: the member itself, or its gateway. `others_until_ms` is the latest
    deadline that any other gateway has received before.
    """

    member_id: str
    deadline_ms: int
    reply_to: str = ""
    others_until_ms: int = 0


class TargetAssignmentRecord(NamedTuple):
    """The assignment that a member receives with its next heartbeat. Soft."""

    member_id: str
    assignment: Assignment


class TargetAssignmentMetadataRecord(NamedTuple):
    """The assignor that computed the targets, and when; the time is None if it had nothing to assign. Soft."""

    assignor: str
    assignment_timestamp_ms: int | None


class InitializationRecord(NamedTuple):
    """The assignor waits since `since_ms` for share-partitions to be initialized; None ends the wait. Soft."""

    since_ms: int | None


class DeletedTopicRecord(NamedTuple):
    """A topic whose deletion is known since `time_ms`, so that old metadata does not add it again. Soft."""

    topic_id: str
    time_ms: int


TableRecord = ShareGroupRecord | ShareGroupMemberRecord | SharePartitionRecord | ShareGroupConfigRecord
SoftRecord = (
    SessionRecord | TargetAssignmentRecord | TargetAssignmentMetadataRecord | InitializationRecord | DeletedTopicRecord
)
Record = TableRecord | SoftRecord
