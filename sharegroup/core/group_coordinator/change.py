"""The records that one handler call collects, and the group as it will be after their replay.

A handler decides in steps: member, group epoch, assignor, member at the new epoch. Each step depends on the previous
ones, but the group itself must not change. The steps therefore work on a copy. It is made with the first record,
because most heartbeats have none.
"""

from typing import NamedTuple

from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import (
    DeletedTopicRecord,
    GroupState,
    InitializationRecord,
    Record,
    ShareGroupConfigRecord,
    ShareGroupRecord,
    SharePartitionRecord,
    SoftRecord,
    TableRecord,
    TargetAssignmentMetadataRecord,
)


class Records(NamedTuple):
    """The records of a handler call: table rows, and soft records that exist only in the operator's state."""

    table: tuple[TableRecord, ...] = ()
    soft: tuple[SoftRecord, ...] = ()


class Change:
    """Collects records. `after` is the group with the records so far."""

    def __init__(self, before: GroupMetadata) -> None:
        self._before = before
        self._records: dict[tuple[object, ...], Record] = {}
        self.after = before

    def add(self, record: Record) -> None:
        """Add a record. It replaces an earlier one with the same key, because each record is the whole row."""
        if self.after is self._before:
            self.after = self._before.copy()
        self.after.replay(record)
        key = _key(record)
        self._records.pop(key, None)
        self._records[key] = record

    def bump_group_epoch(self) -> None:
        """Raise the group epoch, because members, subscriptions or partitions changed (KIP-848, "Group epoch").

        Epoch 1 stands for a group to which nothing has been assigned yet, so a new group starts with 2 (KAFKA-20268).
        The run of the assignor for this epoch does not wait for share-partitions to be initialized.
        """
        state = GroupState.STABLE if self.after.members else GroupState.EMPTY
        epoch = self.after.next_epoch
        self.add(ShareGroupRecord(self.after.group_id, epoch, self.after.assignment_epoch, state))
        if self.after.initializing_since_ms is not None:
            self.add(InitializationRecord(None))

    def records(self) -> Records:
        """Return one record per changed key, in the order of their last changes."""
        soft = [record for record in self._records.values() if isinstance(record, SoftRecord)]
        table = [record for record in self._records.values() if not isinstance(record, SoftRecord)]
        return Records(tuple(table), tuple(soft))


def _key(record: Record) -> tuple[object, ...]:
    if isinstance(record, SharePartitionRecord):
        return type(record), record.topic_id, record.partition
    if isinstance(record, ShareGroupRecord | TargetAssignmentMetadataRecord | InitializationRecord):
        return (type(record),)
    if isinstance(record, ShareGroupConfigRecord):
        return type(record), record.config_name
    if isinstance(record, DeletedTopicRecord):
        return type(record), record.topic_id
    return type(record), record.member_id
