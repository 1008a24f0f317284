"""Splitting of an acknowledgement into rows: nothing is lost, nothing is repeated, each row fits into a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.protocol.rows import acknowledgement_rows as module
from sharegroup.protocol.rows.acknowledgement_rows import MAX_ROW_BYTES, split_acknowledgement
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest
from sharegroup.types import AcknowledgementBatch, AcquiredRange

MAX_MESSAGE_BYTES = 1_048_576
FAR = 10**18


def size(batches: tuple[AcknowledgementBatch, ...], grants: tuple[AcquiredRange, ...]) -> int:
    row = AcknowledgeRequest("1", "g", "t", "id", 0, "m", batches=batches, acquired=grants)
    return len(row.encode())


def test_a_small_acknowledgement_is_one_unchanged_row() -> None:
    batches = [AcknowledgementBatch(0, 9, (1,)), AcknowledgementBatch(20, 22, (1, 2, 3))]
    grants = [AcquiredRange(0, 9, 1), AcquiredRange(20, 22, 3)]
    assert list(split_acknowledgement(batches, grants)) == [(tuple(batches), tuple(grants))]


@pytest.mark.parametrize(
    ("batches", "grants"),
    [
        (
            [AcknowledgementBatch(FAR, FAR + 999_999, tuple(n % 5 for n in range(1_000_000)))],
            [AcquiredRange(FAR, FAR + 999_999, 1)],
        ),
        (
            [AcknowledgementBatch(FAR, FAR + 99_999, (1,))],
            [AcquiredRange(FAR + n, FAR + n, 1 + n % 2) for n in range(100_000)],
        ),
        (
            [AcknowledgementBatch(FAR + 2 * n, FAR + 2 * n, (1,)) for n in range(50_000)],
            [AcquiredRange(FAR + 2 * n, FAR + 2 * n, 1) for n in range(50_000)],
        ),
    ],
    ids=["types", "grants", "batches"],
)
def test_each_row_fits_into_a_message(batches: list[AcknowledgementBatch], grants: list[AcquiredRange]) -> None:
    rows = list(split_acknowledgement(batches, grants))
    assert len(rows) > 1
    assert max(size(*row) for row in rows) < MAX_MESSAGE_BYTES
    assert min(size(*row) for row in rows[:-1]) > MAX_ROW_BYTES / 10


@st.composite
def acknowledgements(draw: st.DrawFn) -> tuple[list[AcknowledgementBatch], list[AcquiredRange]]:
    """Batches, some of which begin where another ends, and the grants of their offsets."""
    batches: list[AcknowledgementBatch] = []
    position = 0
    for _ in range(draw(st.integers(1, 6))):
        first = position + draw(st.integers(0, 3))
        last = first + draw(st.integers(0, 12))
        count = draw(st.sampled_from([1, last - first + 1]))
        types = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
        batches.append(AcknowledgementBatch(first, last, tuple(types)))
        position = last
    offsets = sorted({offset for batch in batches for offset in range(batch.first_offset, batch.last_offset + 1)})
    grants: list[AcquiredRange] = []
    for offset in offsets:
        first, count = offset, draw(st.integers(1, 2))
        if grants and grants[-1].last_offset + 1 == offset and grants[-1].delivery_count == count:
            first = grants.pop().first_offset
        grants.append(AcquiredRange(first, offset, count))
    return batches, grants


def by_offset(batches: list[AcknowledgementBatch]) -> list[tuple[int, int]]:
    return [
        (offset, types[0] if len(types) == 1 else types[offset - first])
        for first, last, types in batches
        for offset in range(first, last + 1)
    ]


@given(acknowledgements(), st.integers(100, 600), st.integers(1, 5), st.integers(1, 5))
def test_rows_have_each_offset_with_its_type_and_acquired_range(
    found: tuple[list[AcknowledgementBatch], list[AcquiredRange]], row_bytes: int, types: int, ranges: int
) -> None:
    batches, grants = found
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_ROW_BYTES", row_bytes)
        patch.setattr(module, "_MAX_TYPES", types)
        patch.setattr(module, "MAX_RANGES_PER_ROW", ranges)
        rows = list(split_acknowledgement(batches, grants))
    assert [named for row, _ in rows for named in by_offset(list(row))] == by_offset(batches)
    counts = {offset: count for first, last, count in grants for offset in range(first, last + 1)}
    for row, granted in rows:
        offsets = sorted({offset for offset, _ in by_offset(list(row))})
        assert [(offset, count) for first, last, count in granted for offset in range(first, last + 1)] == [
            (offset, counts[offset]) for offset in offsets
        ]
