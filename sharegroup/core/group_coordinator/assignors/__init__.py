"""Who reads what: the assignors of share groups, as pure functions (KIP-932; KIP-848, "Server side mode").

Several members may read one share-partition, so any assignment is a valid one that leaves no share-partition without a
reader; assignors differ in how many readers each has, and in how little moves when the group changes.
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
from sharegroup.core.group_coordinator.assignors.assignor_class import assignor_of
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
    "assignor_of",
]
