"""The assignor `all` (not in Kafka): every member reads every partition of its topics.

It suits few partitions with records that take long to process. There, an additional reader is worth the cost of the
waiting fetches, which number members x partitions. Nothing moves when members join or leave.
"""

from sharegroup.core.group_coordinator.assignors.assignor import GroupAssignment, GroupSpec, SubscribedTopicDescriber


class AllAssignor:
    """A `ShareGroupPartitionAssignor`."""

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        """Assign to each member all partitions of its topics; equal subscriptions share one assignment."""
        subscriptions = dict.fromkeys(member.subscribed_topic_ids for member in group.members.values())
        assignments = {
            topic_ids: {
                topic_id: partitions for topic_id in topic_ids if (partitions := topics.assignable_partitions(topic_id))
            }
            for topic_ids in subscriptions
        }
        return {member_id: assignments[member.subscribed_topic_ids] for member_id, member in group.members.items()}
