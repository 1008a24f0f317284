"""`Change` collects the records of one handler call, and applies them to a copy of the group.

A handler proceeds in steps: update the member, raise the group epoch, run the assignor, move the member to the new
epoch. Each step depends on the previous ones, but a handler must not change the group itself. The steps therefore use a
copy of the group. The copy is made when the first record is added, because most heartbeats add no record.
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
    """The records of a handler call: rows of tables, and soft records, which exist only in the operator's state."""

    table: tuple[TableRecord, ...] = ()
    soft: tuple[SoftRecord, ...] = ()


class Change:
    """The records of one handler call, and `after`, the group after the records that were added so far.

    The group `before` does not change.
    """

    def __init__(self, before: GroupMetadata) -> None:
        self._before = before
        self._records: dict[tuple[object, ...], Record] = {}
        self.after = before

    def add(self, record: Record) -> None:
        """Add a record and apply it to `after`.

        It replaces an earlier record with the same key, because each record contains a whole row.
        """
        if self.after is self._before:
            self.after = self._before.copy()
        self.after.replay(record)
        key = _key(record)
        self._records.pop(key, None)
        self._records[key] = record

    def bump_group_epoch(self) -> None:
        """Raise the group epoch, because members, subscriptions or partitions changed (KIP-848, "Group epoch").

        A new group starts with epoch 2, because epoch 1 means that nothing has been assigned yet (KAFKA-20268). The
        call ends any wait of the assignor for share-partitions to be initialized. If the assignor must wait, the caller
        adds an `InitializationRecord` afterwards.
        """
        state = GroupState.STABLE if self.after.members else GroupState.EMPTY
        epoch = self.after.next_epoch
        self.add(ShareGroupRecord(self.after.group_id, epoch, self.after.assignment_epoch, state))
        if self.after.initializing_since_ms is not None:
            self.add(InitializationRecord(None))

    def records(self) -> Records:
        """Return the last record of each key. The records are in the order in which they were added."""
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
