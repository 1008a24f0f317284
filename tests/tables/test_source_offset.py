"""The source's offset JSON, and the rows between two offsets."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset, ShareGroupOffsetHeader
from sharegroup.job.knowledge.source_offset import OlderFormatError, SourceOffset, SourceRow
from sharegroup.job.planning.batch_rows import OffsetsApartError, rows_between
from sharegroup.types import RecordState, SharePartitionKey, StateBatch

KEY = SharePartitionKey("g", "orders", "id", 0)
SHARD = "g\tid\t0"
HEADER = ShareGroupOffsetHeader(3, 2, 7, 8, 0, 2, 1_000, 7)
STATE = ShareGroupOffset(HEADER, (StateBatch(8, 9, RecordState.ACQUIRED, 1, "m1", 31_000),))
LOAD = {"topic": "orders", "partition": 0, "state_epoch": 2, "initializing": False, "log": None, "start_offset": None}


def through_json(offset: SourceOffset) -> SourceOffset:
    return SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))


def decoded(found: Collection[tuple[str, str]]) -> list[tuple[str, str, Any]]:
    return [(key, *_row(text)) for key, text in found]


def _row(text: str) -> tuple[str, Any]:
    kind, body = text.split("\t", 1)
    return kind, json.loads(body)


def no_states(version: int, keys: Collection[SharePartitionKey]) -> Mapping[SharePartitionKey, ShareGroupOffset]:
    raise AssertionError("the rows need no states")


@pytest.mark.parametrize("many", [1, 1_000])
def test_an_offset_comes_back_from_its_json(many: int) -> None:
    keys = tuple(f"g\tid-{number}\t0" for number in range(many))
    rows = (SourceRow("tick", 90, keys), SourceRow("log", [[0, 5, 20, None, True]], (SHARD,)))
    written = SourceOffset(4, 1, 3, 7, waiting=keys, gone=keys, clock_ms=90, rows=rows)
    assert through_json(written) == written
    assert through_json(SourceOffset()) == SourceOffset()
    assert written.is_large == (many > 1)


def test_large_lists_are_packed() -> None:
    """Spark writes an offset to its log, and more than once to each progress event."""
    load = {"topic": "orders", "state_epoch": 1, "initializing": False, "start_offset": 123_456}
    rows = tuple(
        SourceRow("load", [load | {"partition": p, "log": [0, 123_456 + p, None, True]}], (f"group-{g:04}\tid\t0",))
        for g in range(200)
        for p in range(10)
    )
    text = json.dumps(SourceOffset(rows=rows).to_json())
    assert len(text) < 20 * len(rows)
    assert through_json(SourceOffset(rows=rows)).rows == rows


@pytest.mark.parametrize("written", [{"seq": 1, "log": {}, "tick_keys": []}, {"format": 2, "seq": 1}, {"format": 0}])
def test_an_offset_of_another_version_is_rejected_with_instructions(written: dict[str, Any]) -> None:
    with pytest.raises(OlderFormatError, match="remove its directory"):
        SourceOffset.from_json(written)


def test_a_row_for_many_shards_reaches_each() -> None:
    end = SourceOffset(
        seq=1, rows=(SourceRow("log", [[1, 6, 30, None, True]], ("a", "b")), SourceRow("tick", 9, ("a",)))
    )
    assert decoded(list(rows_between(SourceOffset(), end, no_states))) == [
        ("a", "log", [[1, 6, 30, None, True]]),
        ("b", "log", [[1, 6, 30, None, True]]),
        ("a", "tick", 9),
    ]


@pytest.mark.parametrize(
    ("state_epoch", "start_offset", "more"),
    [
        (2, None, {"start_offset": 8, "batches": [[8, 9, 1, 1, "m1", 31_000]]}),
        (1, None, {"start_offset": 8, "batches": [[8, 9, 1, 1, "m1", 31_000]]}),
        (3, 12, {"start_offset": 12, "batches": []}),
    ],
)
def test_a_load_uses_the_state_of_its_epoch_and_ignores_an_older_one(
    state_epoch: int, start_offset: int | None, more: dict[str, Any]
) -> None:
    asked = []

    def states(version: int, keys: Collection[SharePartitionKey]) -> Mapping[SharePartitionKey, ShareGroupOffset]:
        asked.append((version, list(keys)))
        return {KEY: STATE}

    load = LOAD | {"state_epoch": state_epoch, "start_offset": start_offset}
    end = SourceOffset(seq=1, state_version=5, rows=(SourceRow("load", [load], (SHARD,)),))
    ((_, _, (loaded,)),) = decoded(list(rows_between(SourceOffset(), end, states)))
    assert loaded == load | {"header": list(HEADER)} | more
    assert asked == [(5, [KEY])]


def test_a_load_without_a_state_begins_at_the_start_offset_that_was_found() -> None:
    end = SourceOffset(seq=1, rows=(SourceRow("load", [LOAD | {"start_offset": 4}], (SHARD,)),))
    ((_, _, (loaded,)),) = decoded(list(rows_between(SourceOffset(), end, lambda *_: {})))
    assert loaded == LOAD | {"header": None, "start_offset": 4, "batches": []}


def test_equal_offsets_make_no_rows() -> None:
    offset = SourceOffset(seq=1, rows=(SourceRow("tick", 9, ("a",)),))
    assert list(rows_between(offset, through_json(offset), no_states)) == []


@pytest.mark.parametrize(("start", "end"), [(1, 3), (3, 2), (2, 2)])
def test_offsets_that_do_not_follow_each_other_are_rejected(start: int, end: int) -> None:
    """No offset contains the rows of a batch between them; Spark never requests two batches as one."""
    apart = SourceOffset(seq=start), SourceOffset(seq=end, rows=(SourceRow("tick", 9, ("a",)),))
    with pytest.raises(OffsetsApartError, match=f"offsets {start} and {end}"):
        list(rows_between(*apart, no_states))
