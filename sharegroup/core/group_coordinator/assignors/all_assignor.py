"""The assignor `all` (not in Kafka): every member reads every partition of its topics.

It suits topics with few partitions whose records take long to process. Its cost is the number of waiting fetches, which
is members x partitions. No partition moves when members join or leave.
"""

from sharegroup.core.group_coordinator.assignors.assignor import GroupAssignment, GroupSpec, SubscribedTopicDescriber


class AllAssignor:
    """The `ShareGroupPartitionAssignor` that assigns every partition to every subscribed member."""

    def assign(self, group: GroupSpec, topics: SubscribedTopicDescriber) -> GroupAssignment:
        """Return, for each member, all partitions of its topics. Members with equal subscriptions get the same dict."""
        subscriptions = dict.fromkeys(member.subscribed_topic_ids for member in group.members.values())
        assignments = {
            topic_ids: {
                topic_id: partitions for topic_id in topic_ids if (partitions := topics.assignable_partitions(topic_id))
            }
            for topic_ids in subscriptions
        }
        return {member_id: assignments[member.subscribed_topic_ids] for member_id, member in group.members.items()}
