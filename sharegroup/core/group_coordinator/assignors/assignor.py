"""Input and output of assignors, named as in Kafka's package `coordinator.group.api.assignor`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

#: Partitions by topic id, ascending.
MemberAssignment = Mapping[str, tuple[int, ...]]
#: By member id; every member has an entry.
GroupAssignment = Mapping[str, MemberAssignment]


class MemberSpec(NamedTuple):
    """A member's subscription in the group's order of topics, its current target, and its own properties."""

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
    """The initialized partitions, by topic id. Topics without any are left out."""

    assignable: Mapping[str, tuple[int, ...]]

    def assignable_partitions(self, topic_id: str) -> tuple[int, ...]:
        """Return the assignable partitions of a topic, ascending."""
        return self.assignable.get(topic_id, ())


class ShareGroupPartitionAssignor(Protocol):
    """Decides which member reads which partitions.

    Equal arguments give equal assignments. Each assignable partition of a subscribed topic has a member. No member has
    partitions of a topic to which it does not subscribe.
    """

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        """Return the new target of every member."""
        ...
