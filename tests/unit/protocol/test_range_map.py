"""RangeMap compared with a dict of offsets, and the overlap cases of its docstring."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.protocol.range_map import RangeMap, append_fused
from sharegroup.types import AcquiredRange

OFFSETS = st.integers(0, 24)


def bars(text: str) -> RangeMap[str]:
    """A map drawn as a bar: one letter for each offset, a dot for a hole."""
    return RangeMap((i, i, c) for i, c in enumerate(text) if c != ".")


def as_dict(ranges: RangeMap[str]) -> dict[int, str]:
    return {offset: value for first, last, value in ranges for offset in range(first, last + 1)}


@pytest.mark.parametrize(
    ("before", "first", "last", "after", "ranges"),
    [
        (".......", 2, 4, "..XXX..", 1),
        ("AAAAA..", 2, 4, "AAXXX..", 2),
        ("..BBBBB", 1, 3, ".XXXBBB", 2),
        ("AAAAAAA", 2, 4, "AAXXXAA", 3),
        ("AABBCDD", 1, 5, "AXXXXXD", 3),
        ("XX...BB", 2, 4, "XXXXXBB", 2),
        ("XX.A.XX", 2, 4, "XXXXXXX", 1),
        ("XX...XX", 3, 3, "XX.X.XX", 3),
        ("AAA....", 0, 2, "XXX....", 1),
        ("....XX.", 2, 3, "..XXXX.", 1),
        ("XXXX...", 1, 2, "XXXX...", 1),
    ],
)
def test_assign_cuts_and_fuses(before: str, first: int, last: int, after: str, ranges: int) -> None:
    result = bars(before)
    result.assign(first, last, "X")
    assert result == bars(after)
    assert len(result) == ranges


@pytest.mark.parametrize(
    ("before", "first", "last", "after"),
    [
        ("AAAAAAA", 2, 4, "AA...AA"),
        ("AABB.DD", 1, 5, "A.....D"),
        ("..AA...", 0, 1, "..AA..."),
        ("..AA...", 0, 6, "......."),
    ],
)
def test_discard_makes_a_hole(before: str, first: int, last: int, after: str) -> None:
    result = bars(before)
    result.discard(first, last)
    assert result == bars(after)


def test_items_and_holes_are_clipped() -> None:
    ranges = bars("AAA..BBB")
    assert list(ranges.items(1, 6)) == [(1, 2, "A"), (5, 6, "B")]
    assert list(ranges.items(None, 0)) == [(0, 0, "A")]
    assert list(ranges.holes(0, 9)) == [(3, 4), (8, 9)]
    assert list(RangeMap[str]().holes(2, 3)) == [(2, 3)]


def test_an_empty_map_has_no_first_and_last_offset() -> None:
    empty = RangeMap[str]()
    assert (empty.first_offset, empty.last_offset, len(empty)) == (None, None, 0)


@pytest.mark.parametrize("method", ["assign", "discard"])
def test_an_empty_range_is_rejected(method: str) -> None:
    ranges = bars("AA")
    with pytest.raises(ValueError, match="first offset of the range is after its last offset"):
        ranges.assign(3, 2, "X") if method == "assign" else ranges.discard(3, 2)
    assert ranges == bars("AA")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("assign"), OFFSETS, OFFSETS, st.sampled_from("ABC")),
            st.tuples(st.just("discard"), OFFSETS, OFFSETS, st.none()),
            st.tuples(st.just("trim_below"), OFFSETS, st.none(), st.none()),
        ),
        max_size=30,
    )
)
def test_behaves_like_a_dict_of_offsets(operations: list[tuple[str, int, int, str]]) -> None:
    ranges, model = RangeMap[str](), dict[int, str]()
    for name, a, b, value in operations:
        if name == "trim_below":
            ranges.trim_below(a)
            model = {offset: v for offset, v in model.items() if offset >= a}
            continue
        first, last = min(a, b), max(a, b)
        for offset in range(first, last + 1):
            model.pop(offset, None)
        if name == "assign":
            ranges.assign(first, last, value)
            model.update(dict.fromkeys(range(first, last + 1), value))
        else:
            ranges.discard(first, last)
    assert as_dict(ranges) == model
    assert ranges.first_offset == min(model, default=None)
    assert ranges.last_offset == max(model, default=None)
    _assert_minimal(list(ranges))
    assert ranges == RangeMap((offset, offset, value) for offset, value in model.items())
    assert RangeMap.from_columns(*ranges.columns()) == ranges


def _assert_minimal(items: list[tuple[int, int, str]]) -> None:
    for (_, last, value), (first, _, next_value) in pairwise(items):
        assert first > last
        assert first > last + 1 or value != next_value


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (AcquiredRange(10, 12, 1), [(5, 12, 1)]),
        (AcquiredRange(10, 12, 2), [(5, 9, 1), (10, 12, 2)]),
        (AcquiredRange(11, 12, 1), [(5, 9, 1), (11, 12, 1)]),
        (AcquiredRange(0, 4, 1), [(5, 9, 1), (0, 4, 1)]),
    ],
    ids=["continues", "another-value", "behind-a-hole", "in-front"],
)
def test_append_fused_extends_the_last_range_if_it_is_continued(
    item: AcquiredRange, expected: list[tuple[int, int, int]]
) -> None:
    ranges = [AcquiredRange(5, 9, 1)]
    append_fused(ranges, item)
    assert ranges == expected
