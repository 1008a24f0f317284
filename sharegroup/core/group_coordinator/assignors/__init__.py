"""The assignors of share groups, as pure functions (KIP-932; KIP-848, "Server side mode").

Several members may read one share-partition. An assignment is valid if every share-partition has a reader. Assignors
differ in the number of readers per share-partition, and in how many share-partitions move when the group changes.
"""

from sharegroup.core.group_coordinator.assignors.all_assignor import AllAssignor
from sharegroup.core.group_coordinator.assignors.assignor import (
    GroupAssignment,
    GroupSpec,
    MemberAssignment,
    MemberSpec,
    ShareGroupPartitionAssignor,
    SubscribedTopicDescriber,
)
from sharegroup.core.group_coordinator.assignors.assignor_lookup import get_assignor
from sharegroup.core.group_coordinator.assignors.simple_assignor import SimpleAssignor

__all__ = [
    "AllAssignor",
    "GroupAssignment",
    "GroupSpec",
    "MemberAssignment",
    "MemberSpec",
    "ShareGroupPartitionAssignor",
    "SimpleAssignor",
    "SubscribedTopicDescriber",
    "get_assignor",
]
