"""The assignor `all` (ours): every member reads every partition of its topics.

For few partitions with records that take long, where a reader more on each is worth more than the demands that wait:
members x partitions of them. Nothing moves when a member comes or goes.
"""

from __future__ import annotations

from sharegroup.core.group_coordinator.assignors.assignor import GroupAssignment, GroupSpec, SubscribedTopicDescriber


class AllAssignor:
    """A `ShareGroupPartitionAssignor`."""

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        """All that each subscribes to; equal subscriptions share one assignment."""
        subscriptions = dict.fromkeys(member.subscribed_topic_ids for member in group.members.values())
        assignments = {
            topic_ids: {
                topic_id: partitions for topic_id in topic_ids if (partitions := topics.assignable_partitions(topic_id))
            }
            for topic_ids in subscriptions
        }
        return {member_id: assignments[member.subscribed_topic_ids] for member_id, member in group.members.items()}
