"""The state of one share group, and `replay`, the only thing that changes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharegroup.group_coordinator.records import (
    Assignment,
    GroupState,
    Record,
    SessionRecord,
    ShareGroupConfigRecord,
    ShareGroupMemberRecord,
    ShareGroupRecord,
    SharePartitionRecord,
    SharePartitionStatus,
    TargetAssignmentRecord,
)

__all__ = ["GroupMetadata"]


@dataclass
class GroupMetadata:
    """A group's epochs, members and share-partitions; times are milliseconds since the epoch.

    `share_partitions` maps topic and partition to the last record of each; `targets` and `session_deadlines` have an
    entry for every member. `configs` are the values that requests have set, by name; they outlive the group.
    """

    group_id: str
    group_epoch: int = 0
    assignment_epoch: int = 0
    group_state: GroupState = GroupState.EMPTY
    members: dict[str, ShareGroupMemberRecord] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    session_deadlines: dict[str, int] = field(default_factory=dict)
    share_partitions: dict[str, dict[int, SharePartitionRecord]] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        """Whether the group has been joined, and not deleted since."""
        return self.group_epoch > 0 and self.group_state is not GroupState.DEAD

    def topic_id(self, topic: str) -> str | None:
        """The id under which the group knows a topic."""
        records = self.share_partitions.get(topic, {}).values()
        return next((r.topic_id for r in records if r.status is not SharePartitionStatus.DELETING), None)

    def known(self, topic: str) -> dict[int, SharePartitionRecord]:
        """The share-partitions of a topic, without those that are being deleted."""
        records = self.share_partitions.get(topic, {})
        return {p: record for p, record in records.items() if record.status is not SharePartitionStatus.DELETING}

    def partitions(self, topic: str, status: SharePartitionStatus) -> tuple[int, ...]:
        """The partitions of a topic that are in a status, ascending."""
        known = self.share_partitions.get(topic, {})
        return tuple(sorted(partition for partition, record in known.items() if record.status is status))

    def assignable(self) -> dict[str, tuple[int, ...]]:
        """The initialized share-partitions, by topic."""
        found = {
            topic: self.partitions(topic, SharePartitionStatus.INITIALIZED) for topic in sorted(self.share_partitions)
        }
        return {topic: partitions for topic, partitions in found.items() if partitions}

    def copy(self) -> GroupMetadata:
        """An independent copy; the records themselves never change."""
        return GroupMetadata(
            self.group_id,
            self.group_epoch,
            self.assignment_epoch,
            self.group_state,
            dict(self.members),
            dict(self.targets),
            dict(self.session_deadlines),
            {topic: dict(partitions) for topic, partitions in self.share_partitions.items()},
            dict(self.configs),
        )

    def replay(self, record: Record) -> None:
        """Apply one record."""
        if isinstance(record, SessionRecord):
            self.session_deadlines[record.member_id] = record.deadline_ms
        elif isinstance(record, TargetAssignmentRecord):
            self.targets[record.member_id] = record.assignment
        elif isinstance(record, SharePartitionRecord):
            self._replay_share_partition(record)
        elif isinstance(record, ShareGroupConfigRecord):
            self._replay_config(record)
        elif isinstance(record, ShareGroupMemberRecord):
            self._replay_member(record)
        else:
            self._replay_group(record)

    def _replay_share_partition(self, record: SharePartitionRecord) -> None:
        of_topic = self.share_partitions.setdefault(record.topic, {})
        if record.is_tombstone:
            of_topic.pop(record.partition, None)
        else:
            of_topic[record.partition] = record
        if not of_topic:
            del self.share_partitions[record.topic]

    def _replay_config(self, record: ShareGroupConfigRecord) -> None:
        if record.config_value is None:
            self.configs.pop(record.config_name, None)
        else:
            self.configs[record.config_name] = record.config_value

    def _replay_member(self, record: ShareGroupMemberRecord) -> None:
        if not record.is_tombstone:
            self.members[record.member_id] = record
            return
        for by_member in (self.members, self.targets, self.session_deadlines):
            by_member.pop(record.member_id, None)

    def _replay_group(self, record: ShareGroupRecord) -> None:
        """A dead group keeps its epochs: what was made under them stays fenced when the group is joined again.

        It also keeps the share-partitions whose states are still to be deleted, and what was configured.
        """
        self.group_epoch = record.group_epoch
        self.assignment_epoch = record.assignment_epoch
        self.group_state = record.group_state
        if record.group_state is GroupState.DEAD:
            for content in (self.members, self.targets, self.session_deadlines):
                content.clear()
            self.share_partitions = {
                topic: deleting
                for topic, records in self.share_partitions.items()
                if (deleting := {p: r for p, r in records.items() if r.status is SharePartitionStatus.DELETING})
            }
