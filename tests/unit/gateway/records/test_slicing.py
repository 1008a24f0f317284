"""Slicing a response: the drawn cases, and that every listed offset has its batch (otherwise records are lost)."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.gateway.records.batch_cache import BatchCache, CacheKey, Chunk, batches_from
from sharegroup.gateway.records.record_batches import RecordBatch
from sharegroup.gateway.records.slicing import Limits, Slice, leading_together, slice_response
from sharegroup.types import AcquiredRange, OffsetRange

BATCH_BYTES = 100
NO_LIMIT = Limits(10**6, 10**9, 10**6)


def data(first: int, last: int, size: int = BATCH_BYTES) -> RecordBatch:
    return RecordBatch(first, last, False, False, False, memoryview(bytes(size)))


def control(first: int, last: int | None = None) -> RecordBatch:
    return data(first, first if last is None else last)._replace(is_control=True)


def read(offset: int, batches: list[RecordBatch]) -> Chunk:
    """Return the part of the log that a Fetch at `offset` returned."""
    return Chunk(offset, batches[-1].last_offset, tuple(batches), sum(len(batch.data) for batch in batches))


def parts(cut: Slice) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], list[tuple[int, ...]]]:
    return [tuple(r) for r in cut.acquired], [tuple(r) for r in cut.gaps], [tuple(r) for r in cut.left]


# -- the drawn cases -------------------------------------------------------------------------------------------------


def test_slice_as_in_the_drawing() -> None:
    log = [data(0, 6), data(7, 13), control(17, 19), data(20, 26)]
    cut = slice_response([AcquiredRange(0, 28, 1)], log, OffsetRange(0, 26), Limits(14, 10**6, 100))
    assert parts(cut) == ([(0, 13, 1)], [(14, 19)], [(20, 28, 1)])
    assert cut.records == [log[0].data, log[1].data]
    assert (cut.record_count, cut.byte_count) == (14, 2 * BATCH_BYTES)


def test_batch_that_has_begun_is_finished() -> None:
    ranges = [AcquiredRange(0, 3, 1), AcquiredRange(5, 20, 2)]
    cut = slice_response(ranges, [data(0, 9), data(10, 19)], OffsetRange(0, 19), NO_LIMIT._replace(max_records=1))
    assert parts(cut) == ([(0, 3, 1), (5, 9, 2)], [], [(10, 20, 2)])


def test_a_record_limit_is_exact_and_the_batch_is_sent_again() -> None:
    limits = NO_LIMIT._replace(max_records=6, is_record_limit=True, batch_size=1)
    log = [data(0, 9), data(10, 19)]
    cut = slice_response([AcquiredRange(0, 3, 1), AcquiredRange(5, 20, 2)], log, OffsetRange(0, 19), limits)
    assert parts(cut) == ([(0, 3, 1), (5, 6, 2)], [], [(7, 20, 2)])
    cut = slice_response(cut.left, log, OffsetRange(0, 19), limits)
    assert parts(cut) == ([(7, 12, 2)], [], [(13, 20, 2)])
    assert cut.records == [batch.data for batch in log]


def test_adjacent_ranges_of_one_delivery_count_are_one_entry() -> None:
    ranges = [AcquiredRange(0, 3, 1), AcquiredRange(4, 6, 1), AcquiredRange(7, 9, 2), AcquiredRange(11, 12, 2)]
    cut = slice_response(ranges, [data(0, 4), data(5, 19)], OffsetRange(0, 19), NO_LIMIT)
    assert parts(cut) == ([(0, 6, 1), (7, 9, 2), (11, 12, 2)], [], [])


def test_entries_end_with_a_batch_once_they_have_the_batch_size() -> None:
    log = [data(first, first + 3) for first in range(0, 24, 4)]
    cut = slice_response([AcquiredRange(0, 23, 1)], log, OffsetRange(0, 23), NO_LIMIT._replace(batch_size=6))
    assert parts(cut) == ([(0, 7, 1), (8, 15, 1), (16, 23, 1)], [], [])
    exact = slice_response([AcquiredRange(0, 23, 1)], log, OffsetRange(0, 23), NO_LIMIT._replace(batch_size=8))
    assert exact == cut


def test_byte_limit_ends_the_response_except_for_the_first_batch() -> None:
    log = [data(0, 4), data(5, 9), data(10, 14)]
    acquired, covered = [AcquiredRange(0, 14, 1)], OffsetRange(0, 14)
    two = slice_response(acquired, log, covered, NO_LIMIT._replace(max_bytes=299))
    assert (parts(two)[0], two.byte_count) == ([(0, 9, 1)], 200)
    none = slice_response(acquired, log, covered, NO_LIMIT._replace(max_bytes=99))
    assert (none.acquired, none.records, none.left) == ([], [], acquired)
    one = slice_response(acquired, log, covered, NO_LIMIT._replace(max_bytes=0, must_progress=True))
    assert parts(one) == ([(0, 4, 1)], [], [(5, 14, 1)])


def test_a_record_at_its_last_attempt_is_delivered_alone() -> None:
    good, last = AcquiredRange(0, 4, 1), AcquiredRange(5, 9, 5)
    assert leading_together([good, last, AcquiredRange(10, 14, 1)], 5) == [good]
    assert leading_together([last, AcquiredRange(10, 14, 1)], 5) == [AcquiredRange(5, 5, 5)]
    assert leading_together([good, last], 6) == [good, last]


def test_last_attempts_are_not_separated_if_the_limit_is_two_or_less() -> None:
    ranges = [AcquiredRange(0, 4, 1), AcquiredRange(5, 9, 2)]
    assert leading_together(ranges, 2) == ranges


def test_ranges_that_were_not_read_stay() -> None:
    ranges = [AcquiredRange(0, 2, 1), AcquiredRange(8, 30, 1)]
    cut = slice_response(ranges, [data(10, 19)], OffsetRange(9, 19), NO_LIMIT)
    assert parts(cut) == ([(10, 19, 1)], [(9, 9)], [(0, 2, 1), (8, 8, 1), (20, 30, 1)])
    assert slice_response(ranges, [], None, NO_LIMIT).left == ranges


def test_hole_that_no_read_covers_stays() -> None:
    cut = slice_response([AcquiredRange(0, 20, 1)], [data(0, 4), data(10, 14)], OffsetRange(0, 6), NO_LIMIT)
    assert parts(cut) == ([(0, 4, 1), (10, 14, 1)], [(5, 6)], [(7, 9, 1), (15, 20, 1)])


def test_a_hole_of_millions_is_one_gap() -> None:
    cut = slice_response(
        [AcquiredRange(0, 3_000_000, 1)], [data(3_000_000, 3_000_000)], OffsetRange(0, 3_000_000), NO_LIMIT
    )
    assert parts(cut) == ([(3_000_000, 3_000_000, 1)], [(0, 2_999_999)], [])


# -- any ranges, any log, any limits ---------------------------------------------------------------------------------


class Case(NamedTuple):
    """A random log: `log` are all batches; `batches` are those read, which cover `covered`."""

    ranges: list[AcquiredRange]
    log: list[RecordBatch]
    batches: list[RecordBatch]
    covered: OffsetRange | None


KINDS = st.sampled_from(["data", "data", "data", "control", "aborted", "empty"])


@st.composite
def logs(draw: st.DrawFn) -> list[RecordBatch]:
    """Generate batches with holes between them, some not for clients; each has its own bytes."""
    batches, offset = [], draw(st.integers(0, 3))
    for kind, hole, length in draw(st.lists(st.tuples(KINDS, st.integers(0, 4), st.integers(1, 8)), max_size=12)):
        first = offset + (hole if hole > 2 else 0)
        batch = data(first, first + length - 1, draw(st.integers(1, 30)))
        flags = {"control": (True, False, False), "aborted": (False, True, False), "empty": (False, False, True)}
        is_control, is_aborted, is_empty = flags.get(kind, (False, False, False))
        batches.append(batch._replace(is_control=is_control, is_aborted=is_aborted, is_empty=is_empty))
        offset = first + length
    return batches


@st.composite
def acquired_ranges(draw: st.DrawFn) -> list[AcquiredRange]:
    ranges, offset = [], 0
    pieces = st.tuples(st.integers(-3, 6), st.integers(1, 9), st.integers(1, 3))
    for skip, length, count in draw(st.lists(pieces, max_size=15)):
        first = offset + max(0, skip)
        ranges.append(AcquiredRange(first, first + length - 1, count))
        offset = first + length
    return ranges


@st.composite
def cases(draw: st.DrawFn) -> Case:
    log, fetch_offset = draw(logs()), draw(st.integers(0, 40))
    upper = draw(st.integers(0, len(log)))
    batches = [batch for batch in log[:upper] if batch.last_offset >= fetch_offset]
    part = batches_from([read(fetch_offset, batches)] if batches else [], fetch_offset, 10**9)
    return Case(draw(acquired_ranges()), log, batches, part.covered if part else None)


LIMITS = st.builds(
    Limits,
    max_records=st.integers(0, 30),
    max_bytes=st.integers(0, 120),
    batch_size=st.integers(0, 20),
    is_record_limit=st.booleans(),
    must_progress=st.booleans(),
)


def by_offset(ranges: list[AcquiredRange]) -> dict[int, int]:
    found = {offset: count for first, last, count in ranges for offset in range(first, last + 1)}
    assert len(found) == sum(last - first + 1 for first, last, _ in ranges)
    assert all(a.last_offset < b.first_offset for a, b in pairwise(ranges))
    return found


def offsets_of(ranges: list[OffsetRange]) -> set[int]:
    assert all(a.last_offset < b.first_offset for a, b in pairwise(ranges))
    return {offset for first, last in ranges for offset in range(first, last + 1)}


def sent_batches(cut: Slice, batches: list[RecordBatch]) -> list[RecordBatch]:
    """Return the batches that were sent, identified by their bytes; each once and in order."""
    positions = [next(i for i, b in enumerate(batches) if b.data is records) for records in cut.records]
    assert all(a < b for a, b in pairwise(positions))
    return [batches[i] for i in positions]


@given(cases(), LIMITS)
def test_listed_offsets_lie_inside_the_batches_sent(case: Case, limits: Limits) -> None:
    cut = slice_response(case.ranges, case.batches, case.covered, limits)
    sent = sent_batches(cut, case.batches)
    listed = by_offset(cut.acquired)
    in_batches = {offset for batch in sent for offset in range(batch.base_offset, batch.last_offset + 1)}
    assert listed.keys() <= in_batches
    assert all(batch.is_data for batch in sent)
    assert all(listed.keys() & set(range(b.base_offset, b.last_offset + 1)) for b in sent)


@given(cases(), LIMITS)
def test_every_acquired_offset_is_listed_or_a_gap_or_left(case: Case, limits: Limits) -> None:
    cut = slice_response(case.ranges, case.batches, case.covered, limits)
    before, listed, left, gaps = (
        by_offset(case.ranges),
        by_offset(cut.acquired),
        by_offset(cut.left),
        offsets_of(cut.gaps),
    )
    assert not listed.keys() & left.keys()
    assert not gaps & (listed.keys() | left.keys())
    assert listed | left | {offset: before[offset] for offset in gaps} == before


@given(cases(), LIMITS)
def test_no_record_is_a_gap(case: Case, limits: Limits) -> None:
    gaps = offsets_of(slice_response(case.ranges, case.batches, case.covered, limits).gaps)
    in_data = {o for b in case.log if b.is_data for o in range(b.base_offset, b.last_offset + 1)}
    assert not gaps & in_data
    assert not gaps or (case.covered and case.covered[0] <= min(gaps) and max(gaps) <= case.covered[1])


@given(cases(), LIMITS)
def test_limits_are_kept(case: Case, limits: Limits) -> None:
    cut = slice_response(case.ranges, case.batches, case.covered, limits)
    sent, listed = sent_batches(cut, case.batches), by_offset(cut.acquired)
    assert cut.byte_count == sum(map(len, cut.records))
    assert cut.record_count == len(listed)
    assert cut.byte_count <= limits.max_bytes or (limits.must_progress and len(sent) == 1)
    if limits.is_record_limit:
        assert cut.record_count <= limits.max_records
    elif sent:
        assert sum(offset < sent[-1].base_offset for offset in listed) < limits.max_records


@given(cases(), LIMITS)
def test_a_response_ends_early_only_at_a_limit(case: Case, limits: Limits) -> None:
    cut = slice_response(case.ranges, case.batches, case.covered, limits)
    left = by_offset(cut.left)
    missed = [b for b in case.batches if b.is_data and left.keys() & set(range(b.base_offset, b.last_offset + 1))]
    if missed and cut.record_count < limits.max_records:
        assert cut.byte_count + len(missed[0].data) > limits.max_bytes
        assert cut.records or not limits.must_progress


@given(cases(), LIMITS)
def test_entries_have_the_batch_size_or_end_for_a_reason(case: Case, limits: Limits) -> None:
    cut = slice_response(case.ranges, case.batches, case.covered, limits)
    starts = {batch.base_offset for batch in case.batches}
    for a, b in pairwise(cut.acquired):
        if a.last_offset + 1 == b.first_offset and a.delivery_count == b.delivery_count:
            assert not limits.is_record_limit
            assert b.first_offset in starts
            assert a.last_offset - a.first_offset + 1 >= limits.batch_size
    if not limits.is_record_limit:
        for first, last, _ in cut.acquired:
            assert not any(first + max(1, limits.batch_size) <= start <= last for start in starts)


@given(logs(), acquired_ranges(), LIMITS, st.integers(1, 4), st.sampled_from([1, 1_000]))
def test_in_the_end_each_record_is_listed_once(
    log: list[RecordBatch], ranges: list[AcquiredRange], limits: Limits, batches_a_read: int, cache_bytes: int
) -> None:
    """Slices cached batches, or those of the next read, as `MemberSession.take_records` does."""
    end = max([0, *(r.last_offset for r in ranges), *(b.last_offset for b in log)]) + 1
    log = [*log, data(end, end)]
    limits = limits._replace(must_progress=True, max_records=max(1, limits.max_records))
    cache, key = BatchCache(cache_bytes), CacheKey(UUID(int=1), 0, False)
    before, listed, gaps, left = by_offset(ranges), [], set(), ranges
    for _ in range(10 * (len(before) + 1)):
        if not left:
            break
        offset = left[0].first_offset
        part = batches_from(cache.lookup(key, offset, limits.max_bytes), offset, limits.max_bytes)
        if part is None:
            cache.insert(key, read(offset, [batch for batch in log if batch.last_offset >= offset][:batches_a_read]))
            continue
        cut = slice_response(left, part.batches, part.covered, limits)
        assert by_offset(cut.left) != by_offset(left)  # each iteration makes progress
        listed += [(o, count) for o, count in by_offset(cut.acquired).items()]
        gaps |= offsets_of(cut.gaps)
        left = cut.left
    assert left == []
    in_data = {o for b in log if b.is_data for o in range(b.base_offset, b.last_offset + 1)}
    assert sorted(listed) == sorted((o, count) for o, count in before.items() if o in in_data)
    assert gaps == before.keys() - in_data
