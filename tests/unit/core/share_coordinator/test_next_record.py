"""The next record, as the share-partition operator uses it: with a header and its own window."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sharegroup.core.share_coordinator.next_record import (
    StateWrite,
    initial_record,
    next_record,
)
from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffsetHeader
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.types import SharePartitionKey, StateBatch

from .state_batch_strategies import acknowledged, acquired, available

KEY = SharePartitionKey("g", "t1", "t1-id", 0)
HEADER = ShareGroupOffsetHeader(
    snapshot_epoch=3,
    state_epoch=2,
    leader_epoch=0,
    start_offset=10,
    delivery_complete_count=4,
    updates_since_snapshot=0,
    last_snapshot_ms=1_000,
    leader_epoch_fence=7,
)
WRITE = StateWrite(KEY, 2, 7, 10, 4)
UPDATE = ShareGroupStateRecord(RecordKind.UPDATE, KEY, 3)


def no_batches() -> Sequence[StateBatch]:
    """Fail, because an update must not need the merged batches."""
    raise AssertionError("merged batches asked for")


def changed(**fields: int) -> ShareGroupStateRecord:
    """Return the update of a write that differs from the header in `fields`."""
    return next_record(HEADER, WRITE._replace(**fields), 500, no_batches)


def test_an_update_repeats_nothing_that_did_not_change() -> None:
    assert changed() == UPDATE


@pytest.mark.parametrize(
    ("sent", "recorded"),
    [
        pytest.param({"start_offset": 12, "delivery_complete_count": 1}, (12, 1), id="advanced: as sent"),
        pytest.param({"start_offset": 12}, (12, -1), id="advanced: count unchanged"),
        pytest.param({"start_offset": 12, "delivery_complete_count": -1}, (12, -1), id="advanced: count unknown"),
        pytest.param({"delivery_complete_count": 6}, (-1, 6), id="equal: higher count"),
        pytest.param({"delivery_complete_count": 3}, (-1, -1), id="equal: lower count kept"),
        pytest.param({"start_offset": 9, "delivery_complete_count": 6}, (-1, -1), id="behind: kept"),
        pytest.param({"start_offset": -1, "delivery_complete_count": 6}, (-1, -1), id="unset: kept"),
    ],
)
def test_start_offset_and_count_follow_kafka_4_4(sent: dict[str, int], recorded: tuple[int, int]) -> None:
    record = changed(**sent)
    assert record == UPDATE._replace(start_offset=recorded[0], delivery_complete_count=recorded[1])


@pytest.mark.parametrize("sent", [{"state_epoch": 3}, {"leader_epoch": 8}])
def test_a_write_accepts_higher_epochs_but_does_not_record_them(sent: dict[str, int]) -> None:
    assert changed(**sent) == UPDATE


@pytest.mark.parametrize(
    ("state_epoch", "leader_epoch", "code"),
    [
        (2, 6, ErrorCode.FENCED_LEADER_EPOCH),
        (2, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, 7, ErrorCode.FENCED_STATE_EPOCH),
        (1, 6, ErrorCode.FENCED_LEADER_EPOCH),
        (-1, 7, ErrorCode.INVALID_REQUEST),
        (2, -1, ErrorCode.INVALID_REQUEST),
        (-1, 6, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_late_leader_is_fenced(state_epoch: int, leader_epoch: int, code: ErrorCode) -> None:
    with pytest.raises(RequestError) as refused:
        next_record(HEADER, WRITE._replace(state_epoch=state_epoch, leader_epoch=leader_epoch), 500, no_batches)
    assert refused.value.code is code


def test_batches_of_a_write_are_combined_and_trimmed() -> None:
    write = WRITE._replace(start_offset=12, state_batches=(acquired(10, 19), available(15, 24, 0)))
    assert next_record(HEADER, write, 500, no_batches).state_batches == (acquired(12, 14), available(15, 24, 0))


def test_a_snapshot_holds_the_whole_state() -> None:
    window = (acknowledged(10, 14), acquired(15, 19))
    write = WRITE._replace(start_offset=12, delivery_complete_count=3, state_batches=(acknowledged(12, 14),))
    record = next_record(HEADER._replace(updates_since_snapshot=1), write, 1, lambda: window)
    expected = (acknowledged(12, 14), acquired(15, 19))
    assert record == ShareGroupStateRecord(RecordKind.SNAPSHOT, KEY, 4, 2, 0, 12, 3, expected)


@pytest.mark.parametrize(("interval", "kinds"), [(0, "SSSSSS"), (1, "USUSUS"), (2, "UUSUUS"), (500, "UUUUUU")])
def test_a_snapshot_follows_each_interval_of_updates(interval: int, kinds: str) -> None:
    header, written = HEADER, ""
    for now_ms in range(2_000, 2_006):
        record = next_record(header, WRITE, interval, tuple)
        header = header.apply_record(record, now_ms)
        written += record.kind.value[0]
    assert written == kinds
    assert header.snapshot_epoch == HEADER.snapshot_epoch + kinds.count("S")


def test_the_default_interval_ends_exactly() -> None:
    before = next_record(HEADER._replace(updates_since_snapshot=499), WRITE, 500, no_batches)
    after = next_record(HEADER._replace(updates_since_snapshot=500), WRITE, 500, tuple)
    assert (before.kind, after.kind) == (RecordKind.UPDATE, RecordKind.SNAPSHOT)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, ShareGroupStateRecord(RecordKind.SNAPSHOT, KEY, 0, 2, 0, -1, -1)),
        (HEADER, ShareGroupStateRecord(RecordKind.SNAPSHOT, KEY, 4, 2, 0, -1, -1)),
    ],
)
def test_initialising_replaces(header: ShareGroupOffsetHeader | None, expected: ShareGroupStateRecord) -> None:
    assert initial_record(KEY, header, 2, -1) == expected
    known = expected._replace(start_offset=5, delivery_complete_count=0)
    assert initial_record(KEY, header, 2, 5) == known


@pytest.mark.parametrize(("state_epoch", "code"), [(1, ErrorCode.FENCED_STATE_EPOCH), (-1, ErrorCode.INVALID_REQUEST)])
def test_initialising_with_a_lower_state_epoch_is_fenced(state_epoch: int, code: ErrorCode) -> None:
    with pytest.raises(RequestError) as refused:
        initial_record(KEY, HEADER, state_epoch, 0)
    assert refused.value.code is code
