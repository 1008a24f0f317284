"""The merged state: what each kind of record does to it."""

from __future__ import annotations

import json

import pytest

from sharegroup.errors import IllegalTransitionError
from sharegroup.share_coordinator.records import (
    RecordKind,
    ShareGroupStateRecord,
    tombstone,
)
from sharegroup.share_coordinator.share_group_offset import (
    ShareGroupOffset,
    ShareGroupOffsetHeader,
)
from sharegroup.share_coordinator.state_batch_combiner import Precedence
from sharegroup.types import SharePartitionKey

from .state_batch_strategies import acknowledged, acquired, available

KEY = SharePartitionKey("g", "t1", 0)
SNAPSHOT = ShareGroupStateRecord(RecordKind.SNAPSHOT, KEY, 3, 2, 7, 10, 4, (acknowledged(11, 14), acquired(15, 19)))
STATE = ShareGroupOffset.of(SNAPSHOT, 1_000, Precedence.NEWEST)


def update(snapshot_epoch: int = 3, **changed: int) -> ShareGroupStateRecord:
    """An update of `STATE` that changes what is named."""
    return ShareGroupStateRecord(RecordKind.UPDATE, KEY, snapshot_epoch)._replace(**changed)


def test_a_snapshot_sets_everything() -> None:
    assert STATE.header == ShareGroupOffsetHeader(3, 2, 7, 10, 4, 0, 1_000, 7)
    assert STATE.state_batches == SNAPSHOT.state_batches
    assert not STATE.rewritten


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
    assert STATE.header.after(update(**changed), 2_000) == expected


def test_an_update_trims_below_the_start_offset() -> None:
    record = update(start_offset=13)._replace(state_batches=(available(15, 16), acquired(20, 24)))
    batches = STATE.after(record, 2_000, Precedence.NEWEST).state_batches
    assert batches == (acknowledged(13, 14), available(15, 16), acquired(17, 24))


def test_a_snapshot_replaces_batches_but_not_the_leader_fence() -> None:
    after = STATE.after(ShareGroupStateRecord(RecordKind.SNAPSHOT, KEY, 4, 3, 0, 50, 0), 2_000, Precedence.NEWEST)
    assert after == ShareGroupOffset(ShareGroupOffsetHeader(4, 3, 0, 50, 0, 0, 2_000, 7), ())


def test_a_snapshot_that_repeats_the_state_is_a_rewrite_until_something_changes() -> None:
    repeated = STATE.after(SNAPSHOT._replace(snapshot_epoch=4), 2_000, Precedence.NEWEST)
    assert repeated.rewritten
    assert not repeated.after(update(4), 3_000, Precedence.NEWEST).rewritten
    assert not STATE.after(SNAPSHOT._replace(snapshot_epoch=4, start_offset=12), 2_000, Precedence.NEWEST).rewritten
    assert not STATE.after(SNAPSHOT._replace(snapshot_epoch=4, state_batches=()), 2_000, Precedence.NEWEST).rewritten


@pytest.mark.parametrize("record", [update(2, start_offset=99), SNAPSHOT._replace(snapshot_epoch=2, start_offset=99)])
def test_a_record_of_an_older_snapshot_changes_nothing(record: ShareGroupStateRecord) -> None:
    assert STATE.after(record, 2_000, Precedence.NEWEST) is STATE
    assert STATE.header.after(record, 2_000) is STATE.header


def test_nothing_follows_a_tombstone() -> None:
    with pytest.raises(IllegalTransitionError, match="tombstone"):
        STATE.after(tombstone(KEY), 2_000, Precedence.NEWEST)


@pytest.mark.parametrize("record", [update(), tombstone(KEY)])
def test_a_state_begins_with_a_snapshot(record: ShareGroupStateRecord) -> None:
    with pytest.raises(IllegalTransitionError, match=record.kind.value):
        ShareGroupOffsetHeader.of(record, 0)


def test_the_header_survives_json() -> None:
    dumped = json.dumps(STATE.header.dump())
    assert dumped == "[3, 2, 7, 10, 4, 0, 1000, 7]"
    assert ShareGroupOffsetHeader.restore(json.loads(dumped)) == STATE.header


@pytest.mark.parametrize("dumped", [[], [1, 2, 3], [0] * 9])
def test_a_dump_of_another_length_is_refused(dumped: list[int]) -> None:
    with pytest.raises(TypeError):
        ShareGroupOffsetHeader.restore(dumped)


@pytest.mark.parametrize(("now_ms", "cold"), [(1_000, False), (1_499, False), (1_500, True), (9_000, True)])
def test_a_state_gets_cold_with_the_age_of_its_snapshot(now_ms: int, cold: bool) -> None:
    assert STATE.header.is_cold(now_ms, 500) is cold
