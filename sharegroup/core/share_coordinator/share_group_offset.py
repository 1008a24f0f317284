"""The durable state of one share-partition, which is computed from its records.

Theory of operation
-------------------
The state has two parts. The *header* consists of eight numbers. They suffice to fence a request, to choose between
update and snapshot, and to find the fields that an update can omit. The *batches* are the states of the records in
flight. The in-flight window of the share-partition operator already contains the batches, so the operator stores only
the header with it.

`apply_record` returns the header after a record. It does not change the existing header.

- A snapshot replaces everything except `leader_epoch_fence`.
- An update replaces the fields that are not -1. Its batches are combined with the existing ones.
- A record with a lower snapshot epoch than the state is ignored, because it belongs to a state that was replaced.
- A tombstone is not accepted, because there is no state after it. The caller deletes the state.

`leader_epoch` is the leader epoch of the newest record. `leader_epoch_fence` is the highest leader epoch so far.
Writers with a lower leader epoch are rejected. Both numbers are needed: after an initialization, which writes leader
epoch 0, old leaders must still be fenced. The state epoch needs only one number, because only an initialization changes
it and never lowers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.errors import IllegalTransitionError
from sharegroup.types import UNCHANGED, StateBatch

#: A state that has not changed since its last snapshot is written again after this time in ms. Old day partitions of
#: the table can then be deleted.
REWRITE_INTERVAL_MS = 12 * 3600 * 1000


class ShareGroupOffsetHeader(NamedTuple):
    """The state of a share-partition without its batches. The header is immutable.

    Attributes:
        snapshot_epoch: The epoch of the newest snapshot.
        state_epoch: The group epoch at which the share-partition was initialized.
        leader_epoch: The leader epoch of the newest record.
        start_offset: The first offset that is not finished, or -1 if unknown.
        delivery_complete_count: The number of finished records at or above `start_offset`, or -1 if unknown.
        updates_since_snapshot: The number of updates after the newest snapshot.
        last_snapshot_ms: The time of the newest snapshot, in milliseconds since the epoch.
        leader_epoch_fence: The highest leader epoch so far. Writers with a lower one are rejected.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    updates_since_snapshot: int
    last_snapshot_ms: int
    leader_epoch_fence: int

    @classmethod
    def from_snapshot(cls, snapshot: ShareGroupStateRecord, now_ms: int) -> ShareGroupOffsetHeader:
        """Return the header after the first record of a share-partition. `now_ms` is stored as `last_snapshot_ms`.

        Raises IllegalTransitionError if the record is not a snapshot, because a state starts with its initialization.
        """
        if snapshot.kind is not RecordKind.SNAPSHOT:
            raise IllegalTransitionError(
                f"the first record of {snapshot.key} must be a snapshot, not {snapshot.kind.value}"
            )
        return cls._of_snapshot(snapshot, now_ms, snapshot.leader_epoch)

    @classmethod
    def _of_snapshot(
        cls, record: ShareGroupStateRecord, now_ms: int, leader_epoch_fence: int
    ) -> ShareGroupOffsetHeader:
        _, _, snapshot_epoch, state_epoch, leader_epoch, start_offset, complete, _ = record
        return cls(snapshot_epoch, state_epoch, leader_epoch, start_offset, complete, 0, now_ms, leader_epoch_fence)

    def supersedes(self, record: ShareGroupStateRecord) -> bool:
        """Return whether the record has no effect on this state, because it belongs to an older snapshot."""
        return record.snapshot_epoch < self.snapshot_epoch

    def apply_record(self, record: ShareGroupStateRecord, now_ms: int) -> ShareGroupOffsetHeader:
        """Return the header after the record. For a superseded record, return this header.

        For a snapshot, `now_ms` is stored as `last_snapshot_ms`. Raises IllegalTransitionError for a tombstone, because
        it leaves no state.
        """
        kind, key, snapshot_epoch, state_epoch, leader_epoch, start_offset, complete, _ = record
        if kind is RecordKind.TOMBSTONE:
            raise IllegalTransitionError(f"{key}: a tombstone deletes the state, so there is no state to return")
        if self.supersedes(record):
            return self
        fence = max(self.leader_epoch_fence, leader_epoch)
        if kind is RecordKind.SNAPSHOT:
            return self._of_snapshot(record, now_ms, fence)
        return ShareGroupOffsetHeader(
            snapshot_epoch,
            self.state_epoch if state_epoch == UNCHANGED else state_epoch,
            self.leader_epoch if leader_epoch == UNCHANGED else leader_epoch,
            self.start_offset if start_offset == UNCHANGED else start_offset,
            self.delivery_complete_count if complete == UNCHANGED else complete,
            self.updates_since_snapshot + 1,
            self.last_snapshot_ms,
            fence,
        )

    def snapshot_due_ms(self, cold_snapshot_interval_ms: int) -> int:
        """Return the time in ms at which a "cold" snapshot must be written, so that older rows can be deleted.

        If there were updates since the newest snapshot, this is `cold_snapshot_interval_ms` after the newest snapshot.
        Otherwise it is `REWRITE_INTERVAL_MS` after the newest snapshot.
        """
        interval_ms = cold_snapshot_interval_ms if self.updates_since_snapshot else REWRITE_INTERVAL_MS
        return self.last_snapshot_ms + interval_ms

    def dump(self) -> list[int]:
        """Return the header as a short list for JSON, in the order of the fields."""
        return list(self)

    @classmethod
    def restore(cls, dumped: Sequence[int]) -> ShareGroupOffsetHeader:
        """Return the header that `dump` wrote. Raises TypeError if the list has a wrong length."""
        return cls(*dumped)


class ShareGroupOffset(NamedTuple):
    """The whole durable state of a share-partition: its header and its batches.

    Batches are sorted, disjoint and not below the start offset. Adjacent batches with equal fields are merged.
    """

    header: ShareGroupOffsetHeader
    state_batches: tuple[StateBatch, ...]
