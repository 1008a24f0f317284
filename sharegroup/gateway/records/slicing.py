"""Selects the acquired ranges and whole record batches that go into a ShareFetch response. No I/O.

A client silently archives each offset of AcquiredRecords for which it finds no record. So an offset is listed only if
the batch that covers it is sent. An acquired offset for which no record can arrive is never listed; the gateway itself
acknowledges it as a GAP::

    ranges        AAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    log           [  1  ][  2  ]...[C][  3  ][  4      ... a hole, [C] a control or aborted batch, 4 is not read yet
    acquired      aaaaaaaaaaaaaa                       batches 1 and 2 are sent, and MaxRecords is reached
    gaps                        gggggg
    left                              LLLLLLLLL        stays in the buffer

The walk stops at the limits, so its cost depends on the number of ranges and batches that it passes, never on records.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sharegroup.gateway.records.record_batches import RecordBatch
from sharegroup.protocol.last_attempts import attempts_together
from sharegroup.protocol.range_map import append_fused
from sharegroup.types import AcquiredRange, OffsetRange


class Limits(NamedTuple):
    """The remaining limits for one partition of a ShareFetch response (KIP-932; `is_record_limit` from KIP-1206).

    `max_records`: strict with `is_record_limit`; otherwise a batch that has begun is finished. `max_bytes`: of record
    batches; with `must_progress` the first batch is sent whatever its size. `batch_size`: an entry of AcquiredRecords
    with at least as many records ends with its batch; unused with `is_record_limit`.
    """

    max_records: int
    max_bytes: int
    batch_size: int
    is_record_limit: bool = False
    must_progress: bool = False


class Slice(NamedTuple):
    """One partition of a ShareFetch response. `acquired`, `gaps` and `left` divide the given ranges into three parts.

    All are ascending and disjoint. `records` are the batches to send, each once. `record_count` is the number of
    offsets in `acquired`, `byte_count` the size of `records`. `rest_of_batch` is the number of offsets that the last
    batch has after the last acquired one.
    """

    acquired: list[AcquiredRange]
    records: list[memoryview]
    gaps: list[OffsetRange]
    left: list[AcquiredRange]
    record_count: int
    byte_count: int
    rest_of_batch: int = 0


def leading_equal_attempts(ranges: list[AcquiredRange], delivery_count_limit: int) -> list[AcquiredRange]:
    """Return the leading part of `ranges`, which are not empty, that may be delivered in one response."""
    together = attempts_together(ranges, delivery_count_limit)
    if together == len(ranges):
        return ranges
    first, _, delivery_count = ranges[0]
    return ranges[:together] or [AcquiredRange(first, first, delivery_count)]


def slice_response(
    ranges: Sequence[AcquiredRange], batches: Sequence[RecordBatch], covered: OffsetRange | None, limits: Limits
) -> Slice:
    """Divide `ranges`, acquired and not sent yet, by `batches` (both ascending and disjoint) and `limits`.

    `covered` is the part of the log that the reads have covered completely; an acquired offset in it outside of all
    data batches is a gap. While the first of `left` lies in it, another call with `left` makes progress.
    """
    walk = _Walk(ranges)
    response = _Response(covered, limits)
    start = bisect_left(batches, walk.first, key=_last_offset)
    for i in range(start, len(batches)):
        batch = batches[i]
        if not batch.is_data:
            continue
        if walk.first < batch.base_offset:
            response.skip_to(walk, batch.base_offset - 1)
        if walk.is_done:
            break
        if walk.first > batch.last_offset:
            continue
        if not response.has_room_for(batch):
            return response.finish(walk)
        response.send(walk, batch)
        if response.is_at_record_limit:
            return response.finish(walk)
    if covered is not None:
        response.skip_to(walk, covered.last_offset)
    return response.finish(walk)


class _Walk:
    """Iterates over the offsets of `ranges`, merging adjacent ones of one delivery count.

    `first` is the next offset.
    """

    __slots__ = ("_count", "_last", "_next", "_ranges", "first", "is_done")

    def __init__(self, ranges: Sequence[AcquiredRange]) -> None:
        self._ranges = ranges
        self._next = self._last = self._count = self.first = 0
        self.is_done = False
        self._advance()

    def take(self, last_offset: int, most: int | None = None) -> Iterator[AcquiredRange]:
        """Advance to `last_offset`, or by `most` offsets, and yield the pieces of ranges passed."""
        while not self.is_done and self.first <= last_offset and most != 0:
            end = min(self._last, last_offset)
            if most is not None:
                end = min(end, self.first + most - 1)
                most -= end - self.first + 1
            piece = AcquiredRange(self.first, end, self._count)
            if end == self._last:
                self._advance()
            else:
                self.first = end + 1
            yield piece

    def rest(self) -> list[AcquiredRange]:
        if self.is_done:
            return []
        return [AcquiredRange(self.first, self._last, self._count), *self._ranges[self._next :]]

    def _advance(self) -> None:
        ranges, i = self._ranges, self._next
        if i == len(ranges):
            self.is_done = True
            return
        first, last, count = ranges[i]
        i += 1
        while i < len(ranges) and ranges[i].first_offset == last + 1 and ranges[i].delivery_count == count:
            last = ranges[i].last_offset
            i += 1
        self.first, self._last, self._count, self._next = first, last, count, i


class _Response:
    """The slice under construction, and whether the limits leave room for more."""

    def __init__(self, covered: OffsetRange | None, limits: Limits) -> None:
        self._covered = covered if covered is not None else OffsetRange(0, -1)
        self._limits = limits
        self._acquired: list[AcquiredRange] = []
        self._records: list[memoryview] = []
        self._gaps: list[OffsetRange] = []
        self._left: list[AcquiredRange] = []
        self._record_count = self._byte_count = self._last_offset = 0

    @property
    def is_at_record_limit(self) -> bool:
        """Whether the strict limit is reached, possibly inside a batch."""
        return self._limits.is_record_limit and self._record_count >= self._limits.max_records

    def has_room_for(self, batch: RecordBatch) -> bool:
        """Return whether the batch may be added."""
        if self._record_count >= self._limits.max_records:
            return False
        if not self._records and self._limits.must_progress:
            return True
        return self._byte_count + len(batch.data) <= self._limits.max_bytes

    def send(self, walk: _Walk, batch: RecordBatch) -> None:
        """Add the batch, with the acquired offsets in it."""
        self._records.append(batch.data)
        self._byte_count += len(batch.data)
        self._last_offset = batch.last_offset
        strict = self._limits.is_record_limit
        room = self._limits.max_records - self._record_count if strict else None
        splits = not strict and self._ends_with_its_batch()
        for piece in walk.take(batch.last_offset, room):
            self._record_count += piece.last_offset - piece.first_offset + 1
            self._list(piece, splits)

    def skip_to(self, walk: _Walk, last_offset: int) -> None:
        """Advance to `last_offset`. There is no batch to send up to this offset.

        Acquired offsets in the covered part of the log are therefore gaps. The others stay in the buffer.
        """
        covered_first, covered_last = self._covered
        for first, last, count in walk.take(last_offset):
            self._leave(first, min(last, covered_first - 1), count)
            self._add_gap(max(first, covered_first), min(last, covered_last))
            self._leave(max(first, covered_last + 1, covered_first), last, count)

    def finish(self, walk: _Walk) -> Slice:
        """Return the slice; the ranges that the walk has not passed stay with the member."""
        self._left += walk.rest()
        rest = self._last_offset - self._acquired[-1].last_offset if self._acquired else 0
        return Slice(self._acquired, self._records, self._gaps, self._left, self._record_count, self._byte_count, rest)

    def _ends_with_its_batch(self) -> bool:
        if not self._acquired:
            return False
        first, last, _ = self._acquired[-1]
        return last - first + 1 >= self._limits.batch_size

    def _list(self, piece: AcquiredRange, splits: bool) -> None:
        if splits:
            self._acquired.append(piece)
        else:
            append_fused(self._acquired, piece)

    def _add_gap(self, first: int, last: int) -> None:
        if first <= last:
            append_fused(self._gaps, OffsetRange(first, last))

    def _leave(self, first: int, last: int, count: int) -> None:
        if first <= last:
            self._left.append(AcquiredRange(first, last, count))


def _last_offset(batch: RecordBatch) -> int:
    return batch.last_offset
