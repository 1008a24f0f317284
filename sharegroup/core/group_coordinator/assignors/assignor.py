"""What an assignor is given and what it returns, named as in Kafka's package `coordinator.group.api.assignor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

#: Partitions by topic id, ascending.
MemberAssignment = Mapping[str, tuple[int, ...]]
#: By member id; every member has an entry.
GroupAssignment = Mapping[str, MemberAssignment]


class MemberSpec(NamedTuple):
    """What a member subscribes to, in the group's order of topics, its present target, and what it says of itself."""

    subscribed_topic_ids: tuple[str, ...]
    assignment: MemberAssignment
    rack_id: str | None = None
    instance_id: str | None = None


@dataclass(frozen=True)
class GroupSpec:
    """The members by id."""

    members: Mapping[str, MemberSpec]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        return len({member.subscribed_topic_ids for member in self.members.values()}) <= 1


@dataclass(frozen=True)
class SubscribedTopicDescriber:
    """The partitions that may be assigned, by topic id: initialized ones. A topic that has none is left out."""

    assignable: Mapping[str, tuple[int, ...]]

    def assignable_partitions(self, topic_id: str) -> tuple[int, ...]:
        """Those of a topic, ascending."""
        return self.assignable.get(topic_id, ())


class ShareGroupPartitionAssignor(Protocol):
    """Decides which member reads which partitions.

    The same arguments give the same assignment. Each assignable partition of a topic that somebody subscribes to has a
    member, and no member has a partition of another topic than those that it subscribes to.
    """

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        """The new target of every member."""
        ...
