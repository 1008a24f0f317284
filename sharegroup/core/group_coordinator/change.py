"""The records of one handler call while it makes them, and the group as it will be when they have been replayed.

A handler decides step by step (member in, epoch up, assignor, member told), and each step depends on the one before it,
yet must not touch the group itself. So the steps go to a copy, which is made only when there is a first record: most
heartbeats have none.
"""

from __future__ import annotations

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
    """What a handler call changes: rows of the tables, and soft records for the operator's state alone."""

    table: tuple[TableRecord, ...] = ()
    soft: tuple[SoftRecord, ...] = ()


class Change:
    """Collects records; `after` is the group with those so far."""

    def __init__(self, before: GroupMetadata) -> None:
        self._before = before
        self._records: dict[tuple[object, ...], Record] = {}
        self.after = before

    def add(self, record: Record) -> None:
        """Add a record; it replaces an earlier one of the same key, since each is the whole row."""
        if self.after is self._before:
            self.after = self._before.copy()
        self.after.replay(record)
        key = _key(record)
        self._records.pop(key, None)
        self._records[key] = record

    def bump_group_epoch(self) -> None:
        """Members, subscriptions or partitions changed: a new assignment is needed (KIP-848, "Group epoch").

        Epoch 1 is that of a group to which nothing has been assigned yet, so a group begins with 2 (KAFKA-20268).
        """
        state = GroupState.STABLE if self.after.members else GroupState.EMPTY
        epoch = self.after.next_epoch
        self.add(ShareGroupRecord(self.after.group_id, epoch, self.after.assignment_epoch, state))

    def records(self) -> Records:
        """One record for each key that changed, in the order of the last change."""
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
