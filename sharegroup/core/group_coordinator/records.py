"""The records of a share group, which handlers return and `replay` applies (KIP-932, "Group metadata records").

Table records are rows of `share_groups`, `share_group_members`, `share_partitions` and `share_group_configs`. Each is
the whole row, so the last record of a key is its state.

Soft records change only the operator's state and are not written to tables:

- session deadlines, because they change with every heartbeat
- target assignments, because the assignor can compute them again from the assignments that members received
- the time of the assignor's last run, and the time since which it waits for initializations
- deleted topics
"""

from enum import Enum
from typing import NamedTuple

#: Start offset in a topic that is new to the group. It means that share.auto.offset.reset determines the offset.
BY_AUTO_OFFSET_RESET = -1
#: Start offset of a partition that was added to a topic of the group, because all records in it are new.
FROM_THE_BEGINNING = 0


class GroupState(str, Enum):
    """The state of a share group, named as in ShareGroupDescribe (KIP-932, "Share group states")."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class SharePartitionStatus(str, Enum):
    """The status of a share-partition in its group. Only initialized share-partitions are assigned to members."""

    INITIALIZING = "initializing"
    INITIALIZED = "initialized"
    DELETING = "deleting"


class TopicPartitions(NamedTuple):
    """A topic and some of its partitions, in ascending order."""

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

    Attributes:
        group_id: The group.
        member_id: The id that the member generated for itself, or the generated id of a static member.
        member_epoch: The assignment epoch that the member was last sent.
        rack_id: The member's rack, or None.
        client_id: The `client.id` of its last heartbeat.
        client_host: The host that sent its last heartbeat.
        subscribed_topic_names: The topics that the member subscribes to.
        assignment: The partitions that the member received at `member_epoch`.
        previous_member_epoch: The epoch before `member_epoch`, or -1 if it is not known. Requests with this epoch are
            still accepted, because the member may not have received its last response.
        is_tombstone: Whether the record removes the member.
        group_instance_id: The name of a static member, or None for a dynamic member.
        incarnation_id: The process that joined last as the member. It is "" after this process left for a restart, and
            None if the process sent no incarnation id.
        joined_ms: The time at which this process replaced another one, or None if it replaced none.
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

    `state_epoch` is the group epoch at the initialization. A durable state with a lower epoch is outdated.
    `auto_offset_reset` is the group's share.auto.offset.reset at that time if it determines the start offset
    (`start_offset` is -1), else None.
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
    """A row of `share_group_configs`: a config value that a request has set. The value None removes the row."""

    group_id: str
    config_name: str
    config_value: str | None


class SessionRecord(NamedTuple):
    """A member's session deadline, in milliseconds since the epoch. A soft record.

    `reply_to` identifies the requester that receives the deadline: the member itself, or its gateway. `others_until_ms`
    is the latest deadline that any other gateway has received before.
    """

    member_id: str
    deadline_ms: int
    reply_to: str = ""
    others_until_ms: int = 0


class TargetAssignmentRecord(NamedTuple):
    """The assignment that a member receives with its next heartbeat. A soft record."""

    member_id: str
    assignment: Assignment


class TargetAssignmentMetadataRecord(NamedTuple):
    """The name of the assignor that ran last, and the time, or None if it had nothing to assign. A soft record."""

    assignor: str
    assignment_timestamp_ms: int | None


class InitializationRecord(NamedTuple):
    """The time since which the assignor waits for share-partitions to be initialized. A soft record.

    None ends the wait.
    """

    since_ms: int | None


class DeletedTopicRecord(NamedTuple):
    """A topic whose deletion was reported at `time_ms`. A soft record.

    It prevents old metadata in heartbeats from adding the topic again.
    """

    topic_id: str
    time_ms: int


TableRecord = ShareGroupRecord | ShareGroupMemberRecord | SharePartitionRecord | ShareGroupConfigRecord
SoftRecord = (
    SessionRecord | TargetAssignmentRecord | TargetAssignmentMetadataRecord | InitializationRecord | DeletedTopicRecord
)
Record = TableRecord | SoftRecord
