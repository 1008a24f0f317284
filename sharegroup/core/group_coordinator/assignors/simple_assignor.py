"""The assignor `simple`, Kafka's only assignor for share groups.

An even distribution has priority over few moves of partitions. Racks are ignored. If all members have the same
subscription, their numbers of partitions differ by at most one. If subscriptions differ, each topic is balanced
separately among its subscribers, so the numbers of two members may differ by one per topic.
"""

from collections.abc import Iterable, Mapping, Sequence

from sharegroup.core.group_coordinator.assignors.assignor import GroupAssignment, GroupSpec, SubscribedTopicDescriber
from sharegroup.core.group_coordinator.assignors.balancing import TopicPartition, balance


class SimpleAssignor:
    """The `ShareGroupPartitionAssignor` that balances partitions as Kafka's SimpleAssignor does."""

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        """Return an assignment that is as even as possible, with as few moves as possible."""
        current = {
            member_id: [(topic_id, p) for topic_id, partitions in member.assignment.items() for p in partitions]
            for member_id, member in sorted(group.members.items())
        }
        if group.is_homogeneous:
            subscribed = next((member.subscribed_topic_ids for member in group.members.values()), ())
            held = balance(current, _partitions(subscribed, topics), dict.fromkeys(current, 0))
        else:
            held = _topic_by_topic(group, topics, current)
        return {member_id: _by_topic(partitions) for member_id, partitions in held.items()}


def _topic_by_topic(
    group: GroupSpec, topics: SubscribedTopicDescriber, current: Mapping[str, Sequence[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member, with each topic balanced separately among its subscribers.

    Topics are balanced in the order of their ids. If members have equally many partitions of a topic, those with fewer
    partitions of the topics that are already balanced get the larger quotas.
    """
    subscribers: dict[str, list[str]] = {}
    for member_id in current:
        for topic_id in group.members[member_id].subscribed_topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    of_topic = {
        (member_id, topic_id): [(topic_id, p) for p in partitions]
        for member_id, member in group.members.items()
        for topic_id, partitions in member.assignment.items()
    }
    held: dict[str, list[TopicPartition]] = {member_id: [] for member_id in current}
    for topic_id, members in sorted(subscribers.items()):
        before = {member_id: of_topic.get((member_id, topic_id), []) for member_id in members}
        loads = {member_id: len(held[member_id]) for member_id in members}
        for member_id, partitions in balance(before, _partitions((topic_id,), topics), loads).items():
            held[member_id] += partitions
    return held


def _partitions(topic_ids: Iterable[str], topics: SubscribedTopicDescriber) -> list[TopicPartition]:
    return [(topic_id, partition) for topic_id in topic_ids for partition in topics.assignable_partitions(topic_id)]


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(of_topic) for topic_id, of_topic in found.items()}
