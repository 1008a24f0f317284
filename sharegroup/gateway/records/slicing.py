"""Selects the acquired ranges and the complete record batches for a ShareFetch response. No I/O.

A client silently archives each offset of AcquiredRecords for which it finds no record. An offset is therefore listed
only if its batch is sent. An acquired offset that has no record in the log is never listed. Instead, the gateway itself
acknowledges it as a GAP::

    ranges        AAAAAAAAAAAAAAAAAAAAAAAAAAAAA
    log           [  1  ][  2  ]...[C][  3  ][  4
    acquired      aaaaaaaaaaaaaa                       batches 1 and 2 are sent, and MaxRecords is reached
    gaps                        gggggg                 acknowledged as GAP
    left                              LLLLLLLLL        stays in the buffer

In the log, `...` is a hole and `[C]` is a control batch or an aborted batch. Batch 4 has not been read yet.

The selection stops at the limits. Its cost depends on the number of ranges and batches up to there, not on the number
of records.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sharegroup.gateway.records.record_batches import RecordBatch
from sharegroup.protocol.last_attempts import attempts_together
from sharegroup.protocol.range_map import append_fused
from sharegroup.types import AcquiredRange, OffsetRange


class Limits(NamedTuple):
    """The remaining limits for one partition of a ShareFetch response (KIP-932; `is_record_limit` is from KIP-1206).

    Attributes:
        max_records: the most records. Unless `is_record_limit`, it may be exceeded to complete the last batch.
        max_bytes: the most bytes of record batches.
        batch_size: an entry of AcquiredRecords with at least this many records does not continue into the next batch;
            unused if `is_record_limit`.
        is_record_limit: whether `max_records` is exact.
        must_progress: whether the first batch is sent even if it is larger than `max_bytes`.
    """

    max_records: int
    max_bytes: int
    batch_size: int
    is_record_limit: bool = False
    must_progress: bool = False


class Slice(NamedTuple):
    """One partition of a ShareFetch response.

    `slice_response` divides its argument `ranges` into `acquired`, `gaps` and `left`. Each of these is ascending and
    disjoint.

    Attributes:
        acquired: the ranges to list in the response.
        records: the batches to send, each once.
        gaps: offsets without a record.
        left: ranges that stay in the buffer.
        record_count: the number of offsets in `acquired`.
        byte_count: the size of `records` in bytes.
        rest_of_batch: the number of offsets in the last batch that are above the last acquired offset.
    """

    acquired: list[AcquiredRange]
    records: list[memoryview]
    gaps: list[OffsetRange]
    left: list[AcquiredRange]
    record_count: int
    byte_count: int
    rest_of_batch: int = 0


def leading_together(ranges: list[AcquiredRange], delivery_count_limit: int) -> list[AcquiredRange]:
    """Return the ranges at the start of `ranges` that may be delivered in one response.

    The result ends before the first record in its last delivery attempt, because such a record is delivered alone (see
    `last_attempts`). If `ranges` begins with such a record, the result is only this record. `ranges` must not be empty.
    """
    together = attempts_together(ranges, delivery_count_limit)
    if together == len(ranges):
        return ranges
    first, _, delivery_count = ranges[0]
    return ranges[:together] or [AcquiredRange(first, first, delivery_count)]


def slice_response(
    ranges: Sequence[AcquiredRange], batches: Sequence[RecordBatch], covered: OffsetRange | None, limits: Limits
) -> Slice:
    """Divide `ranges` into those to send now, gaps, and those that stay in the buffer (see `Slice`).

    `ranges` are acquired and not sent yet. `batches` are the record batches of the log. Both are ascending and
    disjoint. `covered` is the part of the log that has been read completely; None if nothing has been read. Acquired
    offsets in `covered` that are in no data batch are therefore gaps.

    If `Slice.left` begins in `covered`, a limit ended the slice. Another call with these ranges can then send more
    without another read of the log, if its limits allow it.
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
    """A position in `ranges` that moves forward. Adjacent ranges with the same delivery count are merged.

    `first` is the offset at the position. It has no meaning when `is_done` is True.
    """

    __slots__ = ("_count", "_last", "_next", "_ranges", "first", "is_done")

    def __init__(self, ranges: Sequence[AcquiredRange]) -> None:
        self._ranges = ranges
        self._next = self._last = self._count = self.first = 0
        self.is_done = False
        self._advance()

    def take(self, last_offset: int, most: int | None = None) -> Iterator[AcquiredRange]:
        """Advance past `last_offset`, but by at most `most` offsets. Yield the parts of ranges that were passed."""
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
    """Builds a `Slice`, the part of the records that a response contains, within the limits.

    `covered` has the same meaning as for `slice_response`.
    """

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
        """Whether the exact record limit is reached, possibly inside a batch."""
        return self._limits.is_record_limit and self._record_count >= self._limits.max_records

    def has_room_for(self, batch: RecordBatch) -> bool:
        """Return whether the limits allow the batch to be added."""
        if self._record_count >= self._limits.max_records:
            return False
        if not self._records and self._limits.must_progress:
            return True
        return self._byte_count + len(batch.data) <= self._limits.max_bytes

    def send(self, walk: _Walk, batch: RecordBatch) -> None:
        """Add a batch to the response, and list its acquired offsets: all, or as many as an exact MaxRecords allows."""
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
        """Advance past `last_offset` without adding a batch.

        None of the acquired offsets that are passed is in a data batch. Those within `_covered` have been read from the
        log, so they are gaps. All others stay in the buffer.
        """
        covered_first, covered_last = self._covered
        for first, last, count in walk.take(last_offset):
            self._leave(first, min(last, covered_first - 1), count)
            self._add_gap(max(first, covered_first), min(last, covered_last))
            self._leave(max(first, covered_last + 1, covered_first), last, count)

    def finish(self, walk: _Walk) -> Slice:
        """Return the finished slice. Ranges that `walk` has not passed stay in the buffer."""
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
