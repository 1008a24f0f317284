"""The records of a share group, which handlers return and `replay` applies (KIP-932, "Group metadata records").

Table records are rows of `share_groups`, `share_group_members`, `share_partitions` and `share_group_configs`. Each
record is a whole row, so the last record with a key replaces all earlier ones.

Soft records change only the operator's state and are not written to tables:

- session deadlines, because they change with every heartbeat
- target assignments, because the assignor can compute them again from the assignments that members received
- the time of the assignor's last run, and the time since which it waits for share-partitions to be initialized
- deleted topics
"""

from enum import Enum
from typing import NamedTuple

#: The `start_offset` of a share-partition whose actual start offset share.auto.offset.reset determines. An example is a
#: share-partition of a topic that is new to the group.
BY_AUTO_OFFSET_RESET = -1
#: The `start_offset` of a partition that was added to a topic after the group began to read the topic. All records of
#: such a partition are new.
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
    """A row of `share_groups`. `assignment_epoch` is the group epoch for which the targets were computed.

    A dead group keeps its row until all its share-partitions are deleted. A tombstone then removes the row.
    """

    group_id: str
    group_epoch: int
    assignment_epoch: int
    group_state: GroupState
    is_tombstone: bool = False


class ShareGroupMemberRecord(NamedTuple):
    """A row of `share_group_members`. A tombstone removes the row.

    Attributes:
        group_id: The group.
        member_id: The id that the member generated for itself. For a static member without such an id, the id that the
            coordinator derived when the member joined.
        member_epoch: The assignment epoch in the last response to the member.
        rack_id: The member's rack, or None.
        client_id: The `client.id` in the member's last heartbeat.
        client_host: The host that sent the member's last heartbeat.
        subscribed_topic_names: The topics that the member subscribes to.
        assignment: The partitions that the member received at `member_epoch`.
        previous_member_epoch: The epoch before `member_epoch`, or -1 if it is not known. Requests with this epoch are
            still accepted, because the member may not have received its last response.
        is_tombstone: Whether the record removes the member.
        group_instance_id: The name of a static member, or None for a dynamic member.
        incarnation_id: The id of the process that joined last as this member. It is "" after the process left for a
            restart, and None if the process sent no id.
        joined_ms: The time at which the current process joined, if it replaced an earlier process of the member.
            Otherwise None.
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
    """A row of `share_partitions`. A tombstone removes the row.

    `state_epoch` is the group epoch at the initialization. A durable state with a lower epoch is outdated. If
    `start_offset` is -1, `auto_offset_reset` determines the start offset: it is the group's share.auto.offset.reset at
    the initialization. If `start_offset` is not -1, `auto_offset_reset` is None.
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
    """A member's session deadline, in milliseconds since the epoch. It is a soft record: no table stores it.

    `reply_to` identifies the requester that receives the deadline: the member itself, or its gateway. `others_until_ms`
    is the latest deadline of the member that any other gateway has received, or 0 if there is none.
    """

    member_id: str
    deadline_ms: int
    reply_to: str = ""
    others_until_ms: int = 0


class TargetAssignmentRecord(NamedTuple):
    """The assignment that a member receives with its next heartbeat. It is a soft record: no table stores it."""

    member_id: str
    assignment: Assignment


class TargetAssignmentMetadataRecord(NamedTuple):
    """The last run of the assignor. It is a soft record: no table stores it.

    `assignor` is the assignor's name. `assignment_timestamp_ms` is the time of the run. It is None if the next run need
    not wait for the assignment interval, for example because this run had nothing to assign.
    """

    assignor: str
    assignment_timestamp_ms: int | None


class InitializationRecord(NamedTuple):
    """The time since which the assignor waits for share-partitions to be initialized, or None when the wait ends.

    It is a soft record: no table stores it.
    """

    since_ms: int | None


class DeletedTopicRecord(NamedTuple):
    """A topic whose deletion was reported at `time_ms`. It is a soft record: no table stores it.

    The record prevents heartbeats with old metadata from adding the topic again.
    """

    topic_id: str
    time_ms: int


TableRecord = ShareGroupRecord | ShareGroupMemberRecord | SharePartitionRecord | ShareGroupConfigRecord
SoftRecord = (
    SessionRecord | TargetAssignmentRecord | TargetAssignmentMetadataRecord | InitializationRecord | DeletedTopicRecord
)
Record = TableRecord | SoftRecord
