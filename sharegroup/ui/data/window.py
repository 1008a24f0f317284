"""Computes the picture of a share-partition's window, which shows the states of records by offset. No I/O.

A picture has at most `COLUMNS` columns, for any number of ranges. Each column counts its records by kind:

    offsets   100        150        200        250        300
    ranges    |acked|acquired m1   |again|acquired m2| new ...
    columns   [ 100-149 ][ 150-199 ][ 200-249 ][ 250-299 ]
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import groupby, pairwise
from typing import NamedTuple, TypeVar

from sharegroup.types import RecordState, StateBatch, is_reserved

T = TypeVar("T")

#: Maximum columns of a picture.
COLUMNS = 240
#: Number of members with their own colour; the others share one.
COLOURS = 8
#: Number of parts of the picture that are links to their details.
ZONES = 24


class RecordKind(str, Enum):
    """The kinds of records, in the order in which a column stacks them."""

    FINISHED = "finished"
    ACKNOWLEDGED = "acknowledged"
    ARCHIVED = "archived"
    ACQUIRED = "acquired"
    RESERVED = "reserved"
    AGAIN = "again"
    NEW = "new"


#: The texts of the legend.
LABELS = {
    RecordKind.FINISHED: "below the start offset",
    RecordKind.ACKNOWLEDGED: "acknowledged",
    RecordKind.ARCHIVED: "archived",
    RecordKind.ACQUIRED: "acquired",
    RecordKind.RESERVED: "reserved for a gateway",
    RecordKind.AGAIN: "available again",
    RecordKind.NEW: "not delivered yet",
}
_KINDS = {
    RecordState.ACKNOWLEDGED: RecordKind.ACKNOWLEDGED,
    RecordState.ARCHIVED: RecordKind.ARCHIVED,
    RecordState.ACQUIRED: RecordKind.ACQUIRED,
}


class Span(NamedTuple):
    """Offsets from `first` to `last`, both inclusive."""

    first: int
    last: int

    @property
    def records(self) -> int:
        return self.last - self.first + 1


class Piece(NamedTuple):
    """Consecutive offsets with the same state. `member_id` and `lock_deadline_ms` are None unless acquired."""

    first: int
    last: int
    kind: RecordKind
    delivery_count: int = 0
    member_id: str | None = None
    lock_deadline_ms: int | None = None


class Column(NamedTuple):
    """A column: the number of records of each kind, and the number that each member has acquired."""

    first: int
    last: int
    kinds: Counter[RecordKind]
    members: Counter[str]


class Bar(NamedTuple):
    """A rectangle of the picture: horizontally in columns, vertically from 0 (top) to 1."""

    left: int
    width: int
    top: float
    height: float
    name: str


def pieces(batches: Iterable[StateBatch], start_offset: int, span: Span) -> Iterator[Piece]:
    """Yield the pieces of a span, in order and without gaps. `batches` are the ranges in flight, by offset."""
    at = span.first
    if at < start_offset:
        yield Piece(at, min(start_offset - 1, span.last), RecordKind.FINISHED)
        at = start_offset
    for batch in batches:
        if batch.last_offset < at or batch.first_offset > span.last:
            continue
        if batch.first_offset > at:
            yield Piece(at, batch.first_offset - 1, RecordKind.NEW)
        first = max(at, batch.first_offset)
        last = min(batch.last_offset, span.last)
        yield Piece(first, last, _kind(batch), batch.delivery_count, batch.member_id, batch.lock_deadline_ms)
        at = last + 1
    if at <= span.last:
        yield Piece(at, span.last, RecordKind.NEW)


def _kind(batch: StateBatch) -> RecordKind:
    if batch.delivery_count == 0 and batch.delivery_state is RecordState.AVAILABLE:
        return RecordKind.NEW
    if is_reserved(batch.delivery_state, batch.delivery_count):
        return RecordKind.RESERVED
    return _KINDS.get(batch.delivery_state, RecordKind.AGAIN)


def columns(of: Iterable[Piece], span: Span, most: int = COLUMNS) -> list[Column]:
    """Return the columns of a span, whose widths differ by at most one offset; at most one column per offset."""
    count = min(most, span.records)
    edges = [span.first + index * span.records // count for index in range(count + 1)]
    found = [Column(first, after - 1, Counter(), Counter()) for first, after in pairwise(edges)]
    index = 0
    for piece in of:
        while found[index].last < piece.first:
            index += 1
        reached = index
        while reached < count and found[reached].first <= piece.last:
            column = found[reached]
            records = min(piece.last, column.last) - max(piece.first, column.first) + 1
            column.kinds[piece.kind] += records
            if piece.member_id is not None and piece.kind is RecordKind.ACQUIRED:
                column.members[piece.member_id] += records
            reached += 1
    return found


def state_bars(of: Sequence[Column]) -> list[Bar]:
    """Return the bars of all columns, stacked by kind. Equal neighbours are one bar."""
    bars = []
    for stack, left, width in _runs([_stack(column) for column in of]):
        bars += [Bar(left, width, top, height, name) for name, top, height in stack]
    return bars


def member_bars(of: Sequence[Column], names: Sequence[str]) -> list[Bar]:
    """Return bars for the member with the most acquired records of each column.

    Their names are m0, m1, ... by the index in `names`, or `others`. A column without acquired records has no bar.
    """
    places = {member: f"m{place}" for place, member in enumerate(names[:COLOURS])}
    tops = [column.members.most_common(1) for column in of]
    shown = [places.get(top[0][0], "others") if top else None for top in tops]
    return [Bar(left, width, 0, 1, name) for name, left, width in _runs(shown) if name is not None]


def _stack(column: Column) -> tuple[tuple[str, float, float], ...]:
    total, top, stack = column.last - column.first + 1, 0.0, []
    for kind in RecordKind:
        if records := column.kinds[kind]:
            height = records / total
            stack.append((kind.value, round(top, 3), round(height, 3)))
            top += height
    return tuple(stack)


def _runs(of: Sequence[T]) -> Iterator[tuple[T, int, int]]:
    left = 0
    for value, run in groupby(of):
        width = sum(1 for _ in run)
        yield value, left, width
        left += width


def zones(of: Sequence[Column], most: int = ZONES) -> list[tuple[int, int, Column]]:
    """Return (left, width, content) of the parts of the picture, in columns."""
    count = min(most, len(of))
    edges = [index * len(of) // count for index in range(count + 1)]
    return [(left, after - left, join_columns(of[left:after])) for left, after in pairwise(edges)]


def join_columns(of: Sequence[Column]) -> Column:
    """Combine consecutive columns, at least one, into one."""
    kinds: Counter[RecordKind] = Counter()
    members: Counter[str] = Counter()
    for column in of:
        kinds.update(column.kinds)
        members.update(column.members)
    return Column(of[0].first, of[-1].last, kinds, members)


def zoom_span(span: Span, bounds: Span, factor: float) -> Span:
    """Return the span with the same center and `factor` times the width, within the bounds; at least one offset."""
    width = max(1, min(bounds.records, round(span.records * factor)))
    first = span.first + (span.records - width) // 2
    return move_span(Span(first, first + width - 1), bounds, 0)


def move_span(span: Span, bounds: Span, records: int) -> Span:
    """Return the span moved by `records`, within the bounds."""
    width = min(span.records, bounds.records)
    first = max(bounds.first, min(span.first + records, bounds.last - width + 1))
    return Span(first, first + width - 1)
