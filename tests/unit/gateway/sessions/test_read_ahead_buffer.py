"""Ranges and their locks, compared with a plain dict of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.gateway.sessions.read_ahead_buffer import ReadAheadBuffer
from sharegroup.types import AcquiredRange, OffsetRange


def expand(ranges: list[AcquiredRange]) -> dict[int, int]:
    return {offset: count for first, last, count in ranges for offset in range(first, last + 1)}


def buffer_of(*grants: tuple[int, int, int, int]) -> ReadAheadBuffer:
    """Return (first offset, last offset, delivery count, deadline) of each range."""
    buffer = ReadAheadBuffer()
    for first, last, count, deadline_ms in grants:
        buffer.add([AcquiredRange(first, last, count)], deadline_ms)
    return buffer


def test_ranges_are_in_offset_order_and_limited_in_number() -> None:
    buffer = buffer_of((20, 29, 1, 50), (0, 4, 2, 60), (10, 14, 1, 60))
    assert buffer.ranges(9) == [AcquiredRange(0, 4, 2), AcquiredRange(10, 14, 1), AcquiredRange(20, 29, 1)]
    assert buffer.ranges(1) == [AcquiredRange(0, 4, 2)]
    assert (len(buffer), buffer.shortest_deadline_ms()) == (20, 50)


def test_removal_returns_the_shortest_lock() -> None:
    buffer = buffer_of((0, 9, 1, 60), (10, 19, 1, 50), (20, 29, 1, 40))
    assert buffer.remove([AcquiredRange(5, 14, 1)]) == 50
    assert buffer.remove([OffsetRange(0, 4), OffsetRange(100, 110)]) == 60
    assert buffer.remove([]) is None
    assert buffer.remove([OffsetRange(0, 14)]) is None
    assert buffer.ranges(9) == [AcquiredRange(15, 19, 1), AcquiredRange(20, 29, 1)]


def test_reacquired_range_replaces_the_old_one() -> None:
    buffer = buffer_of((0, 9, 1, 50), (5, 14, 2, 80))
    assert (len(buffer), buffer.shortest_deadline_ms()) == (15, 50)
    assert buffer.remove_expiring(50) == [AcquiredRange(0, 4, 1)]
    assert buffer.ranges(9) == [AcquiredRange(5, 14, 2)]


def test_highest_offsets_are_removed_from_the_end() -> None:
    buffer = buffer_of((0, 9, 1, 50), (20, 29, 1, 80))
    assert buffer.remove_last(13) == [AcquiredRange(7, 9, 1), AcquiredRange(20, 29, 1)]
    assert buffer.remove_last(0) == []
    assert buffer.remove_last(99) == [AcquiredRange(0, 6, 1)]
    assert (len(buffer), buffer.shortest_deadline_ms()) == (0, None)


STEPS = st.tuples(
    st.sampled_from(["add", "take", "last", "due"]), st.integers(0, 30), st.integers(1, 8), st.integers(1, 3)
)


@given(st.lists(STEPS, max_size=40))
def test_buffer_matches_a_dict_of_offsets(steps: list[tuple[str, int, int, int]]) -> None:
    buffer, model = ReadAheadBuffer(), dict[int, tuple[int, int]]()
    for kind, first, length, number in steps:
        span = range(first, first + length)
        if kind == "add":
            buffer.add([AcquiredRange(first, first + length - 1, number)], 10 * length)
            model.update(dict.fromkeys(span, (number, 10 * length)))
        elif kind == "take":
            deadlines = [model.pop(offset)[1] for offset in span if offset in model]
            assert buffer.remove([OffsetRange(first, first + length - 1)]) == min(deadlines, default=None)
        elif kind == "last":
            taken = expand(buffer.remove_last(length))
            assert taken == {offset: model[offset][0] for offset in sorted(model)[-length:]}
            model = {offset: model[offset] for offset in sorted(model)[:-length]}
        else:
            due = expand(buffer.remove_expiring(10 * number))
            assert due == {o: count for o, (count, deadline) in model.items() if deadline <= 10 * number}
            model = {o: known for o, known in model.items() if o not in due}
        assert expand(buffer.ranges(100)) == {offset: count for offset, (count, _) in model.items()}
        assert len(buffer) == len(model)
        assert buffer.shortest_deadline_ms() == min((deadline for _, deadline in model.values()), default=None)
