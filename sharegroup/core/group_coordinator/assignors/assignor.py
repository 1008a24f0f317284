"""The interface of assignors. The types are named as in Kafka's package `coordinator.group.api.assignor`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

#: A member's partitions in ascending order, by topic id.
MemberAssignment = Mapping[str, tuple[int, ...]]
#: The assignment of every member of the group, by member id.
GroupAssignment = Mapping[str, MemberAssignment]


class MemberSpec(NamedTuple):
    """A member as input of an assignor.

    Attributes:
        subscribed_topic_ids: The subscribed topics that have assignable partitions. Members with equal subscriptions
            have equal tuples.
        assignment: The partitions that the previous run assigned to the member.
        rack_id: The member's rack, or None.
        instance_id: The group instance id of a static member, or None.
    """

    subscribed_topic_ids: tuple[str, ...]
    assignment: MemberAssignment
    rack_id: str | None = None
    instance_id: str | None = None


@dataclass(frozen=True)
class GroupSpec:
    """The members of a group, by id."""

    members: Mapping[str, MemberSpec]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return len({member.subscribed_topic_ids for member in self.members.values()}) <= 1


@dataclass(frozen=True)
class SubscribedTopicDescriber:
    """Description of topics for an assignor: their partitions that can be assigned, because they are initialized.

    `assignable` has these partitions by topic id. Topics without initialized partitions are left out.
    """

    assignable: Mapping[str, tuple[int, ...]]

    def assignable_partitions(self, topic_id: str) -> tuple[int, ...]:
        """Return the assignable partitions of a topic, ascending."""
        return self.assignable.get(topic_id, ())


class ShareGroupPartitionAssignor(Protocol):
    """Interface of an assignor, which decides which member reads which partitions.

    An implementation must return equal assignments for equal arguments. It must assign each assignable partition of a
    subscribed topic to at least one member, and only to members that subscribe to the topic.
    """

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        """Return the new assignment of every member."""
        ...
