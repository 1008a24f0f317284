"""Folding of durable records into states."""

from __future__ import annotations

import pytest

from sharegroup.core.share_coordinator.fold import fold_records
from sharegroup.core.share_coordinator.records import (
    RecordKind,
    ShareGroupStateRecord,
    tombstone_record,
)
from sharegroup.core.share_coordinator.share_group_offset import (
    ShareGroupOffset,
    ShareGroupOffsetHeader,
)
from sharegroup.types import SharePartitionKey, StateBatch

from .state_batch_strategies import acknowledged, acquired, available

KEY = SharePartitionKey("g", "t1", "t1-id", 0)
OTHER = SharePartitionKey("g", "t1", "t1-id", 1)


def snapshot(
    epoch: int, start_offset: int, *batches: StateBatch, key: SharePartitionKey = KEY
) -> ShareGroupStateRecord:
    """Return a snapshot with state epoch 2 and leader epoch 0."""
    return ShareGroupStateRecord(RecordKind.SNAPSHOT, key, epoch, 2, 0, start_offset, 0, batches)


def update(epoch: int, *batches: StateBatch, start_offset: int = -1, complete: int = -1) -> ShareGroupStateRecord:
    """Return an update of these values."""
    return ShareGroupStateRecord(RecordKind.UPDATE, KEY, epoch, -1, -1, start_offset, complete, batches)


def test_no_records_no_states() -> None:
    assert fold_records([]) == {}


def test_the_newest_wins_and_minus_one_keeps() -> None:
    records = [
        snapshot(0, 10),
        update(0, acquired(10, 19, 1, "m1", 30_000)),
        update(0, acknowledged(10, 12), available(13, 14), start_offset=13, complete=0),
        update(0, available(17, 19, 0)),
    ]
    expected = (available(13, 14), acquired(15, 16, 1, "m1", 30_000), available(17, 19, 0))
    assert fold_records(records, now_ms=5) == {
        KEY: ShareGroupOffset(ShareGroupOffsetHeader(0, 2, 0, 13, 0, 3, 5, 0), expected),
    }


def test_a_snapshot_replaces() -> None:
    state = fold_records([snapshot(0, 10), update(0, available(10, 19)), snapshot(1, 15, acknowledged(16, 19))])[KEY]
    assert state == ShareGroupOffset(ShareGroupOffsetHeader(1, 2, 0, 15, 0, 0, 0, 0), (acknowledged(16, 19),))


@pytest.mark.parametrize("stale", [update(0, available(30, 39), start_offset=30), snapshot(0, 5, available(5, 9))])
def test_records_of_an_older_snapshot_are_ignored(stale: ShareGroupStateRecord) -> None:
    records = [snapshot(0, 10), snapshot(1, 20, available(20, 24))]
    assert fold_records([*records, stale]) == fold_records(records)


def test_a_tombstone_forgets_one_share_partition_and_its_fences() -> None:
    bumped = update(0)._replace(leader_epoch=9)
    records = [snapshot(4, 10), snapshot(0, 7, key=OTHER), bumped._replace(snapshot_epoch=4), tombstone_record(KEY)]
    assert set(fold_records(records)) == {OTHER}
    assert set(fold_records([*records, update(4, available(10, 19))])) == {OTHER}
    again = fold_records([*records, snapshot(0, 3)])[KEY]
    assert again.header == ShareGroupOffsetHeader(0, 2, 0, 3, 0, 0, 0, 0)


def test_a_tombstone_of_the_unknown_is_harmless() -> None:
    assert fold_records([tombstone_record(KEY)]) == {}


def test_the_leader_fence_outlives_an_initialisation() -> None:
    records = [snapshot(0, 10), update(0)._replace(leader_epoch=9), snapshot(1, 0)]
    assert fold_records(records)[KEY].header == ShareGroupOffsetHeader(1, 2, 0, 0, 0, 0, 0, 9)


def test_share_partitions_do_not_mix() -> None:
    records = [
        snapshot(0, 1, available(1, 4)),
        snapshot(0, 2, available(2, 5), key=OTHER),
        update(0, acknowledged(3, 6)),
    ]
    folded = fold_records(records)
    assert folded[KEY].state_batches == (available(1, 2), acknowledged(3, 6))
    assert folded[OTHER].state_batches == (available(2, 5),)
