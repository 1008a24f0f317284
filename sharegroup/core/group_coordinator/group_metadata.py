"""The state of one share group, and `replay`, its only mutator."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharegroup.core.group_coordinator.records import (
    Assignment,
    DeletedTopicRecord,
    GroupState,
    InitializationRecord,
    Record,
    SessionRecord,
    ShareGroupConfigRecord,
    ShareGroupMemberRecord,
    ShareGroupRecord,
    SharePartitionRecord,
    SharePartitionStatus,
    TargetAssignmentMetadataRecord,
    TargetAssignmentRecord,
    TopicPartitions,
)

#: Maximum number of ids of deleted topics that a group keeps. At this number, the oldest id is removed for a new one.
MAX_DELETED_TOPICS = 1_000
#: How long heartbeats with the id of a deleted topic are ignored, in ms. Clients cache metadata for a shorter time.
#: After this time the id counts as that of a new topic. This matters only for brokers without topic ids, because Kafka
#: never reuses an id. For these brokers, ids are derived from topic names, so a new topic of the same name has the same
#: id.
DELETED_TOPIC_MS = 600_000


@dataclass
class GroupMetadata:
    """A group's epochs, members and share-partitions. Times are milliseconds since the epoch.

    Attributes:
        group_id: The name of the group.
        group_epoch: Increases when members, subscriptions or partitions change. 0 for a group that never existed.
        assignment_epoch: The group epoch for which the current targets were computed.
        group_state: EMPTY, STABLE or DEAD.
        members: The record of each member, by member id.
        targets: The assignment that each member receives with its next heartbeat, by member id.
        session_deadlines: The time at which each member's session ends, by member id.
        deadline_receivers: A pair for each member, by member id: who has received the member's session deadlines. The
            first value is the requester (`reply_to`) of the last heartbeat: the member or its gateway; "" if this is
            not known. The second value is the latest session deadline that a gateway other than this requester has
            received, or 0. Until then, such a gateway may still give early answers to the member's acknowledgements,
            unless the member is static.
        share_partitions: The last record of each share-partition, by topic id and partition. For each topic name, at
            most one topic id has share-partitions that are not DELETING.
        configs: The config values that requests have set, by config name. They are kept when the group is deleted.
        deleted_topics: The time at which the deletion of a topic was reported, by topic id. The newest entry is last.
        assignor: The name of the assignor that ran last, or "" before the first run.
        assignment_timestamp_ms: The time of the assignor's last run. None if the next run need not wait for the
            assignment interval, for example because the last run had nothing to assign.
        departed: The ids of the members that left since the assignor's last run.
        static_members: The member id of each static member, by group instance id (KIP-345).
        initializing_since_ms: The time at which the assignor began to wait for share-partitions to be initialized, or
            None if it does not wait. If a run of the assignor is pending, this is when a heartbeat discovered new
            share-partitions. If no run is pending, this is when the first share-partitions of a topic were
            initialized; the assignor then waits for the topic's other share-partitions.
    """

    group_id: str
    group_epoch: int = 0
    assignment_epoch: int = 0
    group_state: GroupState = GroupState.EMPTY
    members: dict[str, ShareGroupMemberRecord] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    session_deadlines: dict[str, int] = field(default_factory=dict)
    deadline_receivers: dict[str, tuple[str, int]] = field(default_factory=dict)
    share_partitions: dict[str, dict[int, SharePartitionRecord]] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)
    deleted_topics: dict[str, int] = field(default_factory=dict)
    assignor: str = ""
    assignment_timestamp_ms: int | None = None
    departed: set[str] = field(default_factory=set)
    static_members: dict[str, str] = field(default_factory=dict)
    initializing_since_ms: int | None = None

    @property
    def next_epoch(self) -> int:
        """The group epoch after the next change. A new group starts with 2, as in Kafka since 4.3."""
        return max(self.group_epoch, 1) + 1

    @property
    def exists(self) -> bool:
        """Whether the group has been created and not deleted since."""
        return self.group_epoch > 0 and self.group_state is not GroupState.DEAD

    @property
    def is_initializing(self) -> bool:
        """Whether at least one share-partition is still being initialized."""
        return any(
            self.partitions_with_status(topic_id, SharePartitionStatus.INITIALIZING)
            for topic_id in self.share_partitions
        )

    def topic_ids(self) -> dict[str, str]:
        """Return the current topic id of each topic name, without topics whose share-partitions are all DELETING."""
        known: dict[str, str] = {}
        for topic_id, records in self.share_partitions.items():
            living = next((r for r in records.values() if r.status is not SharePartitionStatus.DELETING), None)
            if living is not None:
                known[living.topic] = topic_id
        return known

    def is_deleted_topic(self, topic_id: str, now_ms: int) -> bool:
        return topic_id in self.deleted_topics and now_ms < self.deleted_topics[topic_id] + DELETED_TOPIC_MS

    def current_partitions(self, topic_id: str) -> dict[int, SharePartitionRecord]:
        """Return the share-partitions of a topic that are not being deleted."""
        records = self.share_partitions.get(topic_id, {})
        return {p: record for p, record in records.items() if record.status is not SharePartitionStatus.DELETING}

    def partitions_with_status(self, topic_id: str, status: SharePartitionStatus) -> tuple[int, ...]:
        """Return the partitions of a topic that have this status, ascending."""
        records = self.share_partitions.get(topic_id, {})
        return tuple(sorted(partition for partition, record in records.items() if record.status is status))

    def partitions_by_topic(self, *statuses: SharePartitionStatus) -> dict[str, TopicPartitions]:
        """Return the share-partitions with one of `statuses`, by topic name.

        `statuses` must not contain DELETING, because several deleted topics may have had the same name.
        """
        found = {}
        for topic, topic_id in sorted(self.topic_ids().items()):
            partitions = sorted(p for p, record in self.share_partitions[topic_id].items() if record.status in statuses)
            if partitions:
                found[topic] = TopicPartitions(topic, topic_id, tuple(partitions))
        return found

    def assignable_topics(self) -> dict[str, TopicPartitions]:
        """Return the initialized share-partitions, by topic name."""
        return self.partitions_by_topic(SharePartitionStatus.INITIALIZED)

    def copy(self) -> GroupMetadata:
        """Return an independent copy. The copy shares the records, which are immutable."""
        return GroupMetadata(
            self.group_id,
            self.group_epoch,
            self.assignment_epoch,
            self.group_state,
            dict(self.members),
            dict(self.targets),
            dict(self.session_deadlines),
            dict(self.deadline_receivers),
            {topic_id: dict(partitions) for topic_id, partitions in self.share_partitions.items()},
            dict(self.configs),
            dict(self.deleted_topics),
            self.assignor,
            self.assignment_timestamp_ms,
            set(self.departed),
            dict(self.static_members),
            self.initializing_since_ms,
        )

    def replay(self, record: Record) -> None:
        """Apply one record. No other method changes the group."""
        if isinstance(record, SessionRecord):
            self.session_deadlines[record.member_id] = record.deadline_ms
            self.deadline_receivers[record.member_id] = record.reply_to, record.others_until_ms
        elif isinstance(record, TargetAssignmentRecord):
            self.targets[record.member_id] = record.assignment
        elif isinstance(record, TargetAssignmentMetadataRecord):
            self.assignor, self.assignment_timestamp_ms = record
            self.initializing_since_ms = None
            self.departed.clear()
        elif isinstance(record, InitializationRecord):
            self.initializing_since_ms = record.since_ms
        elif isinstance(record, DeletedTopicRecord):
            self._replay_deleted_topic(record)
        elif isinstance(record, SharePartitionRecord):
            self._replay_share_partition(record)
        elif isinstance(record, ShareGroupConfigRecord):
            self._replay_config(record)
        elif isinstance(record, ShareGroupMemberRecord):
            self._replay_member(record)
        else:
            self._replay_group(record)

    def _replay_deleted_topic(self, record: DeletedTopicRecord) -> None:
        self.deleted_topics.pop(record.topic_id, None)
        self.deleted_topics[record.topic_id] = record.time_ms
        newest = list(self.deleted_topics)[-MAX_DELETED_TOPICS:]
        self.deleted_topics = {topic_id: self.deleted_topics[topic_id] for topic_id in newest}

    def _replay_share_partition(self, record: SharePartitionRecord) -> None:
        of_topic = self.share_partitions.setdefault(record.topic_id, {})
        if record.is_tombstone:
            of_topic.pop(record.partition, None)
        else:
            of_topic[record.partition] = record
        if not of_topic:
            del self.share_partitions[record.topic_id]

    def _replay_config(self, record: ShareGroupConfigRecord) -> None:
        if record.config_value is None:
            self.configs.pop(record.config_name, None)
        else:
            self.configs[record.config_name] = record.config_value

    def _replay_member(self, record: ShareGroupMemberRecord) -> None:
        if not record.is_tombstone:
            self.members[record.member_id] = record
            if record.group_instance_id is not None:
                self.static_members[record.group_instance_id] = record.member_id
            return
        self.departed.add(record.member_id)
        if record.group_instance_id is not None:
            self.static_members.pop(record.group_instance_id, None)
        for by_member in (self.members, self.targets, self.session_deadlines, self.deadline_receivers):
            by_member.pop(record.member_id, None)

    def _replay_group(self, record: ShareGroupRecord) -> None:
        """Apply a group record.

        A dead group keeps its epochs, which continue to rise when a member joins the group again. Requests with the
        epochs of former members are therefore still rejected. The group also keeps its configs, the ids of deleted
        topics, and the share-partitions whose states are not deleted yet. Its members are removed.
        """
        self.group_epoch = record.group_epoch
        self.assignment_epoch = record.assignment_epoch
        self.group_state = record.group_state
        if record.group_state is GroupState.DEAD:
            by_member = (self.members, self.targets, self.session_deadlines, self.deadline_receivers, self.departed)
            for content in (*by_member, self.static_members):
                content.clear()
            self.assignor, self.assignment_timestamp_ms, self.initializing_since_ms = "", None, None
            self.share_partitions = {
                topic_id: deleting
                for topic_id, records in self.share_partitions.items()
                if (deleting := {p: r for p, r in records.items() if r.status is SharePartitionStatus.DELETING})
            }
