"""The merged state: the effect of each kind of record."""

from __future__ import annotations

import json

import pytest

from sharegroup.core.share_coordinator.fold import fold_records
from sharegroup.core.share_coordinator.records import (
    RecordKind,
    ShareGroupStateRecord,
    tombstone_record,
)
from sharegroup.core.share_coordinator.share_group_offset import (
    REWRITE_INTERVAL_MS,
    ShareGroupOffset,
    ShareGroupOffsetHeader,
)
from sharegroup.errors import IllegalTransitionError
from sharegroup.types import SharePartitionKey

from .state_batch_strategies import acknowledged, acquired, available

KEY = SharePartitionKey("g", "t1", "t1-id", 0)
SNAPSHOT = ShareGroupStateRecord(RecordKind.SNAPSHOT, KEY, 3, 2, 7, 10, 4, (acknowledged(11, 14), acquired(15, 19)))
HEADER = ShareGroupOffsetHeader.from_snapshot(SNAPSHOT, 1_000)


def update(snapshot_epoch: int = 3, **changed: int) -> ShareGroupStateRecord:
    """Return an update of `SNAPSHOT` that changes these fields."""
    return ShareGroupStateRecord(RecordKind.UPDATE, KEY, snapshot_epoch)._replace(**changed)


def test_a_snapshot_sets_everything() -> None:
    assert ShareGroupOffsetHeader(3, 2, 7, 10, 4, 0, 1_000, 7) == HEADER
    assert fold_records([SNAPSHOT], 1_000) == {KEY: ShareGroupOffset(HEADER, SNAPSHOT.state_batches)}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ShareGroupOffsetHeader(3, 2, 7, 10, 4, 1, 1_000, 7)),
        ({"start_offset": 12}, ShareGroupOffsetHeader(3, 2, 7, 12, 4, 1, 1_000, 7)),
        ({"delivery_complete_count": 0}, ShareGroupOffsetHeader(3, 2, 7, 10, 0, 1, 1_000, 7)),
        ({"leader_epoch": 9}, ShareGroupOffsetHeader(3, 2, 9, 10, 4, 1, 1_000, 9)),
        ({"leader_epoch": 0}, ShareGroupOffsetHeader(3, 2, 0, 10, 4, 1, 1_000, 7)),
        ({"state_epoch": 5}, ShareGroupOffsetHeader(3, 5, 7, 10, 4, 1, 1_000, 7)),
    ],
)
def test_an_update_keeps_what_is_minus_one(changed: dict[str, int], expected: ShareGroupOffsetHeader) -> None:
    assert HEADER.apply_record(update(**changed), 2_000) == expected


def test_an_update_trims_below_the_start_offset() -> None:
    record = update(start_offset=13)._replace(state_batches=(available(15, 16), acquired(20, 24)))
    assert fold_records([SNAPSHOT, record])[KEY].state_batches == (
        acknowledged(13, 14),
        available(15, 16),
        acquired(17, 24),
    )


def test_a_snapshot_replaces_batches_but_not_the_leader_fence() -> None:
    replacing = ShareGroupStateRecord(RecordKind.SNAPSHOT, KEY, 4, 3, 0, 50, 0)
    after = ShareGroupOffsetHeader(4, 3, 0, 50, 0, 0, 2_000, 7)
    assert HEADER.apply_record(replacing, 2_000) == after
    assert fold_records([SNAPSHOT, replacing], 2_000) == {KEY: ShareGroupOffset(after, ())}


@pytest.mark.parametrize("record", [update(2, start_offset=99), SNAPSHOT._replace(snapshot_epoch=2, start_offset=99)])
def test_a_record_of_an_older_snapshot_changes_nothing(record: ShareGroupStateRecord) -> None:
    assert HEADER.apply_record(record, 2_000) is HEADER
    assert fold_records([SNAPSHOT, record], 1_000) == fold_records([SNAPSHOT], 1_000)


def test_nothing_follows_a_tombstone() -> None:
    with pytest.raises(IllegalTransitionError, match="tombstone"):
        HEADER.apply_record(tombstone_record(KEY), 2_000)


@pytest.mark.parametrize("record", [update(), tombstone_record(KEY)])
def test_a_state_begins_with_a_snapshot(record: ShareGroupStateRecord) -> None:
    with pytest.raises(IllegalTransitionError, match=record.kind.value):
        ShareGroupOffsetHeader.from_snapshot(record, 0)


def test_the_header_survives_json() -> None:
    dumped = json.dumps(HEADER.dump())
    assert dumped == "[3, 2, 7, 10, 4, 0, 1000, 7]"
    assert ShareGroupOffsetHeader.restore(json.loads(dumped)) == HEADER


@pytest.mark.parametrize("dumped", [[], [1, 2, 3], [0] * 9])
def test_dump_of_another_length_is_rejected(dumped: list[int]) -> None:
    with pytest.raises(TypeError):
        ShareGroupOffsetHeader.restore(dumped)


def test_a_state_is_repeated_soon_after_updates_and_seldom_without() -> None:
    assert HEADER.snapshot_due_ms(500) == 1_000 + REWRITE_INTERVAL_MS
    assert HEADER.apply_record(update(), 1_200).snapshot_due_ms(500) == 1_500
