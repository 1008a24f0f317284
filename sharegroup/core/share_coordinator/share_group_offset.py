"""The merged state of one share-partition: what its records add up to.

Theory of operation
-------------------
The state has two halves. The *header* is eight numbers: enough to fence a request, to decide between an update and a
snapshot, and to know what an update need not repeat. The *batches* are the states of the records in flight. They are
apart because the share-partition operator holds the batches already, as its window: it keeps only the header beside it.

A record is applied with `after`, which returns the state that follows; nothing here changes in place.

- A snapshot replaces everything but the leader-epoch fence.
- An update replaces what is not -1; its batches are combined with those there are.
- A record with a lower snapshot epoch than the state's speaks about a state that was replaced, and is ignored.
- A tombstone has no state after it: whoever holds the states forgets this one, the fences with it.

`leader_epoch` is what the newest record says; `leader_epoch_fence` is the highest one seen. An initialisation writes
leader epoch 0 but must not let an old leader back in, hence both. The state epoch needs no second number: only an
initialisation changes it, and only upwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.errors import IllegalTransitionError
from sharegroup.types import UNCHANGED, StateBatch

#: A state without updates is written again after this long, so that old days of the table can be dropped.
REWRITE_INTERVAL_MS = 12 * 3600 * 1000


class ShareGroupOffsetHeader(NamedTuple):
    """The state of a share-partition without its batches; immutable and JSON-able (`dump`, `restore`).

    `start_offset` and `delivery_complete_count` are -1 while unknown; `updates_since_snapshot` counts the updates after
    the newest snapshot, whose time is `last_snapshot_ms` (milliseconds since the epoch).
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
    def of(cls, snapshot: ShareGroupStateRecord, now_ms: int) -> ShareGroupOffsetHeader:
        """The header after the first record of a share-partition.

        Raises IllegalTransitionError if that is no snapshot: a state begins with its initialisation.
        """
        if snapshot.kind is not RecordKind.SNAPSHOT:
            raise IllegalTransitionError(f"the state of {snapshot.key} cannot begin with {snapshot.kind.value}")
        return cls._of_snapshot(snapshot, now_ms, snapshot.leader_epoch)

    @classmethod
    def _of_snapshot(
        cls, record: ShareGroupStateRecord, now_ms: int, leader_epoch_fence: int
    ) -> ShareGroupOffsetHeader:
        _, _, snapshot_epoch, state_epoch, leader_epoch, start_offset, complete, _ = record
        return cls(snapshot_epoch, state_epoch, leader_epoch, start_offset, complete, 0, now_ms, leader_epoch_fence)

    def supersedes(self, record: ShareGroupStateRecord) -> bool:
        """Whether the record belongs to a snapshot older than this state, so that it says nothing any more."""
        return record.snapshot_epoch < self.snapshot_epoch

    def after(self, record: ShareGroupStateRecord, now_ms: int) -> ShareGroupOffsetHeader:
        """The header that follows the record; itself if the record is superseded.

        Raises IllegalTransitionError for a tombstone: nothing follows it.
        """
        kind, key, snapshot_epoch, state_epoch, leader_epoch, start_offset, complete, _ = record
        if kind is RecordKind.TOMBSTONE:
            raise IllegalTransitionError(f"{key} has no state after its tombstone")
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
        """When the state is to be repeated by a snapshot, so that older rows can go: a "cold" snapshot.

        That is soon after updates have piled up; else only often enough for old days of the table to be dropped.
        """
        interval_ms = cold_snapshot_interval_ms if self.updates_since_snapshot else REWRITE_INTERVAL_MS
        return self.last_snapshot_ms + interval_ms

    def dump(self) -> list[int]:
        """The header as a short list for JSON, in the order of the fields."""
        return list(self)

    @classmethod
    def restore(cls, dumped: Sequence[int]) -> ShareGroupOffsetHeader:
        """The header that `dump` wrote. Raises TypeError if the list has another length."""
        return cls(*dumped)


class ShareGroupOffset(NamedTuple):
    """Header and batches of a share-partition; batches are sorted, disjoint, fused and not below the start offset."""

    header: ShareGroupOffsetHeader
    state_batches: tuple[StateBatch, ...]
