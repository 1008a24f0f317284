"""The group coordinator of share groups, as a pure state machine (KIP-932, KIP-848).

`ShareGroup` is one group. Its durable records are rows of `share_groups`, `share_group_members`, `share_partitions` and
`share_group_configs`.
"""

from sharegroup.core.group_coordinator.records import (
    Assignment,
    DeletedTopicRecord,
    GroupState,
    SessionRecord,
    ShareGroupMemberRecord,
    ShareGroupRecord,
    SharePartitionRecord,
    SharePartitionStatus,
    TargetAssignmentRecord,
    TopicPartitions,
)
from sharegroup.core.group_coordinator.results import ConfigureGroup, CoordinatorResult, ReleaseMember
from sharegroup.core.group_coordinator.share_group import ShareGroup

__all__ = [
    "Assignment",
    "ConfigureGroup",
    "CoordinatorResult",
    "DeletedTopicRecord",
    "GroupState",
    "ReleaseMember",
    "SessionRecord",
    "ShareGroup",
    "ShareGroupMemberRecord",
    "ShareGroupRecord",
    "SharePartitionRecord",
    "SharePartitionStatus",
    "TargetAssignmentRecord",
    "TopicPartitions",
]
