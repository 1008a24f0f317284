"""Computes a picture of a share-partition. It shows the states of the records along their offsets. No I/O.

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
#: Number of members with their own colour. All other members share one colour.
COLOURS = 8
#: Number of parts into which the picture is divided. Each part is a link to its details.
ZONES = 24


class RecordKind(str, Enum):
    """The kinds of records in a picture, in the order in which a column stacks them from the top."""

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
    """Consecutive offsets with the same state. `member_id` and `lock_deadline_ms` are only set for acquired records."""

    first: int
    last: int
    kind: RecordKind
    delivery_count: int = 0
    member_id: str | None = None
    lock_deadline_ms: int | None = None


class Column(NamedTuple):
    """A column of the picture: the number of records of each kind, and of acquired records of each member.

    It covers the offsets from `first` to `last`, both inclusive.
    """

    first: int
    last: int
    kinds: Counter[RecordKind]
    members: Counter[str]


class Bar(NamedTuple):
    """A rectangle of the picture. `name` is the kind of its records, or stands for a member.

    `left` and `width` are numbers of columns. `top` and `height` are fractions of the picture's height.
    """

    left: int
    width: int
    top: float
    height: float
    name: str


def pieces(batches: Iterable[StateBatch], start_offset: int, span: Span) -> Iterator[Piece]:
    """Yield the pieces of a span, in order and without gaps. A piece has consecutive offsets with the same state.

    `batches` are the ranges of records in flight, sorted by offset. Offsets below `start_offset` are finished.
    """
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
    """Divide a span into columns, and return them. There are at most `most` columns, and at most one for each offset.

    `of` are the pieces of the span. The widths of the columns differ by at most one offset.
    """
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
    """Return the bars of all columns. Each column is a stack with one bar for each kind of its records.

    Neighbouring columns with equal bars are combined.
    """
    bars = []
    for stack, left, width in _runs([_stack(column) for column in of]):
        bars += [Bar(left, width, top, height, name) for name, top, height in stack]
    return bars


def member_bars(of: Sequence[Column], names: Sequence[str]) -> list[Bar]:
    """Return bars that show, for each column, the member with the most acquired records in this column.

    The name of a bar is m0, m1, ..., where the number is the index of the member in `names`. The name is `others` for
    members after the first `COLOURS`. Neighbouring bars with the same name are combined. A column without acquired
    records has no bar.
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
    """Group adjacent columns of the picture into at most `most` zones, which the page shows as links.

    Returns for each zone the index of its first column, its number of columns, and one column that combines them.
    """
    count = min(most, len(of))
    edges = [index * len(of) // count for index in range(count + 1)]
    return [(left, after - left, join_columns(of[left:after])) for left, after in pairwise(edges)]


def join_columns(of: Sequence[Column]) -> Column:
    """Combine consecutive columns into one. There must be at least one column."""
    kinds: Counter[RecordKind] = Counter()
    members: Counter[str] = Counter()
    for column in of:
        kinds.update(column.kinds)
        members.update(column.members)
    return Column(of[0].first, of[-1].last, kinds, members)


def zoom_span(span: Span, bounds: Span, factor: float) -> Span:
    """Return a span with the same center and `factor` times the width. It has at least one offset.

    The span is limited to `bounds`.
    """
    width = max(1, min(bounds.records, round(span.records * factor)))
    first = span.first + (span.records - width) // 2
    return move_span(Span(first, first + width - 1), bounds, 0)


def move_span(span: Span, bounds: Span, records: int) -> Span:
    """Return the span moved by `records` offsets, limited to `bounds`."""
    width = min(span.records, bounds.records)
    first = max(bounds.first, min(span.first + records, bounds.last - width + 1))
    return Span(first, first + width - 1)
