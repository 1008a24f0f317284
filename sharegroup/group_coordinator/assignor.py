"""Who reads what. First version: every member reads every partition of the topics it subscribes to.

That is a valid assignment of a share group, because several members may read one share-partition (KIP-932).
"""

from __future__ import annotations

from collections.abc import Mapping

from sharegroup.group_coordinator.records import Assignment, TopicPartitions

__all__ = ["assign"]


def assign(
    subscriptions: Mapping[str, tuple[str, ...]], assignable: Mapping[str, TopicPartitions]
) -> dict[str, Assignment]:
    """The target assignment of each member, from its sorted subscription and the initialized partitions by name of
    their topic.

    A subscribed topic that has none is left out. Equal subscriptions share one tuple: a group may have 1,000 members.
    """
    by_subscription = {topics: _assignment(topics, assignable) for topics in set(subscriptions.values())}
    return {member_id: by_subscription[topics] for member_id, topics in subscriptions.items()}


def _assignment(topics: tuple[str, ...], assignable: Mapping[str, TopicPartitions]) -> Assignment:
    return tuple(assignable[topic] for topic in topics if topic in assignable)
