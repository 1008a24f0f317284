"""A piece of the in-flight window: a sequence of neighbouring ranges that is stored and decoded as one unit.

A piece is *closed* while its ranges are encoded, and *open* once they are decoded. Queries over all pieces read only
the summaries of the pieces, so a piece that a micro-batch does not use stays closed. An open piece has its ranges in a
`RangeMap` of records. Two indexes avoid scans of the ranges: the AVAILABLE ranges and the acquisition locks. The
indexes are built when first used, and then updated with each change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from sharegroup.core.share_partition.acquisition_locks import AcquisitionLocks
from sharegroup.core.share_partition.available_records import AvailableRecords
from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.record_state import ACQUIRED, AVAILABLE
from sharegroup.protocol.json_text import pack_text, to_json, unpack_json
from sharegroup.protocol.range_map import RangeMap
from sharegroup.types import RecordState

#: In the encoded ranges, this record number marks offsets that are not in the window.
_HOLE = -1
#: In the encoded records, this member number means that no member holds the record.
_NOBODY = -1
#: A piece of up to this many ranges is not stored as a text, because encoding a text would cost more than it saves.
_FEW_RANGES = 32


class PieceSummary(NamedTuple):
    """Values of a piece of the window. They can be read without decoding the ranges of a closed piece.

    Attributes:
        first_offset: The lowest offset.
        last_offset: The highest offset, inclusive.
        ranges: The number of ranges.
        terminal_count: The number of finished records (ACKNOWLEDGED or ARCHIVED).
        next_deadline_ms: The earliest lock deadline, or None if nothing is locked.
        available_count: The number of AVAILABLE records.
        first_available: The lowest AVAILABLE offset, or None if there is none.
        most_delivered: The highest delivery count of an AVAILABLE record, or 0 if none was delivered more than once.
        members: The ids of the holders of records (members, and `reserver_id`s of gateways), sorted.
    """

    first_offset: int
    last_offset: int
    ranges: int
    terminal_count: int
    next_deadline_ms: int | None
    available_count: int
    first_available: int | None
    most_delivered: int
    members: tuple[str, ...]

    def dump(self, base: int) -> list[Any]:
        """Return a JSON-able list with offsets relative to `base`."""
        first_available = None if self.first_available is None else self.first_available - base
        return [
            self.first_offset - base, self.last_offset - base, *self[2:6], first_available, self.most_delivered,
            list(self.members),
        ]  # fmt: skip

    @classmethod
    def restore(cls, dumped: Sequence[Any], base: int) -> PieceSummary:
        """Return the summary that `dump(base)` wrote."""
        first, last, ranges, terminal_count, deadline, available, first_available, most_delivered, members = dumped
        return cls(
            first + base, last + base, ranges, terminal_count, deadline, available,
            None if first_available is None else first_available + base, most_delivered, tuple(members),
        )  # fmt: skip


#: The encoded ranges of a piece: a JSON-able list, or a one-line text.
Content: TypeAlias = list[Any] | str


class ClosedPiece(NamedTuple):
    """A piece of the in-flight window, in the form in which it is stored between two micro-batches."""

    summary: PieceSummary
    content: Content


class WindowPiece:
    """A piece of the in-flight window: neighbouring offset ranges with their `InFlightRecord`.

    The window removes a piece that has become empty.
    """

    __slots__ = ("_available", "_closed", "_locks", "_records", "_terminal_count")

    def __init__(
        self, firsts: Sequence[int] = (), lasts: Sequence[int] = (), records: Sequence[InFlightRecord] = ()
    ) -> None:
        """Create an open piece from parallel lists of first offsets, last offsets and records.

        The ranges must be sorted, and adjacent ranges must have different records.
        """
        self._records: RangeMap[InFlightRecord] | None = RangeMap.from_columns(list(firsts), list(lasts), list(records))
        self._terminal_count = sum(
            last - first + 1
            for first, last, record in zip(firsts, lasts, records, strict=True)
            if record.state.is_terminal
        )
        self._available: AvailableRecords[InFlightRecord] | None = None
        self._locks: AcquisitionLocks | None = None
        #: The encoded form, or None if the piece has changed since it was encoded.
        self._closed: ClosedPiece | None = None

    @classmethod
    def from_closed(cls, summary: PieceSummary, content: Content) -> WindowPiece:
        """Return a closed piece with this summary and content. Its ranges are decoded when they are first used."""
        piece = cls.__new__(cls)
        piece._records = piece._available = piece._locks = None
        piece._terminal_count, piece._closed = summary.terminal_count, ClosedPiece(summary, content)
        return piece

    @property
    def is_changed(self) -> bool:
        """Whether the piece has changed since it was last closed, or was never closed."""
        return self._closed is None

    def close(self) -> ClosedPiece:
        """Return the encoded piece. A piece that has not changed is not encoded again."""
        if self._closed is None:
            summary = PieceSummary(
                self.first_offset, self.last_offset, self.ranges, self._terminal_count, self.next_deadline_ms,
                self.available_count, self.first_available, self.most_delivered, self.members,
            )  # fmt: skip
            content = _content(self._open(), summary)
            self._closed = ClosedPiece(summary, content if self.ranges <= _FEW_RANGES else _text(content))
        return self._closed

    # -- changes ---------------------------------------------------------------------------------------------------

    def assign(self, first: int, last: int, record: InFlightRecord) -> None:
        """Set the record of every offset of first..last."""
        self._remove_from_indexes(first, last)
        self._open().assign(first, last, record)
        if record.state is ACQUIRED:
            if self._locks is not None:
                self._locks.add(first, last, *_owner(record))
        elif record.state is AVAILABLE:
            if self._available is not None:
                self._available.add(first, last, record, record.delivery_count)
        else:
            self._terminal_count += last - first + 1

    def discard(self, first: int, last: int) -> None:
        """Remove every record of first..last."""
        self._remove_from_indexes(first, last)
        self._open().discard(first, last)

    def merge_with(self, behind: WindowPiece) -> WindowPiece:
        """Return a new piece with the ranges of this piece and of `behind`, which follows it."""
        piece = WindowPiece(*self._open().columns())
        for first, last, record in behind.items():
            piece.assign(first, last, record)
        return piece

    def split(self, ranges: int) -> Iterator[WindowPiece]:
        """Divide the ranges of this piece into new pieces with at most `ranges` ranges each."""
        firsts, lasts, records = self._open().columns()
        for i in range(0, len(firsts), ranges):
            yield WindowPiece(firsts[i : i + ranges], lasts[i : i + ranges], records[i : i + ranges])

    def _remove_from_indexes(self, first: int, last: int) -> None:
        """Remove first..last from the indexes and from the count of finished records, but not from the ranges.

        Also decode the piece's ranges if it is closed, and mark the piece as changed.
        """
        records, self._closed = self._open(), None
        for old_first, old_last, old in records.items(first, last):
            if old.state is ACQUIRED:
                if self._locks is not None:
                    self._locks.remove(old_first, old_last, *_owner(old))
            elif old.state is AVAILABLE:
                if self._available is not None:
                    self._available.remove(old_first, old_last, old.delivery_count)
            else:
                self._terminal_count -= old_last - old_first + 1

    # -- ranges and indexes ----------------------------------------------------------------------------------------

    def items(self, first: int | None = None, last: int | None = None) -> Iterator[tuple[int, int, InFlightRecord]]:
        """Return the ranges within first..last, in offset order. None means no limit on that side."""
        return self._open().items(first, last)

    def reversed_items(self) -> Iterator[tuple[int, int, InFlightRecord]]:
        """Return the ranges from the highest offset to the lowest."""
        return reversed(self._open())

    @property
    def available(self) -> AvailableRecords[InFlightRecord]:
        """The index of the AVAILABLE ranges."""
        if self._available is None:
            self._available = AvailableRecords()
            for first, last, record in self._open():
                if record.state is AVAILABLE:
                    self._available.add(first, last, record, record.delivery_count)
        return self._available

    @property
    def locks(self) -> AcquisitionLocks:
        """The index of the acquisition locks."""
        if self._locks is None:
            self._locks = AcquisitionLocks()
            for first, last, record in self._open():
                if record.state is ACQUIRED:
                    self._locks.add(first, last, *_owner(record))
        return self._locks

    # -- values that the summary has too ---------------------------------------------------------------------------

    @property
    def first_offset(self) -> int:
        """The lowest offset."""
        return self._closed.summary.first_offset if self._closed else _known(self._open().first_offset)

    @property
    def last_offset(self) -> int:
        """The highest offset."""
        return self._closed.summary.last_offset if self._closed else _known(self._open().last_offset)

    @property
    def ranges(self) -> int:
        """The number of ranges."""
        return self._closed.summary.ranges if self._closed else len(self._open())

    @property
    def terminal_count(self) -> int:
        """The number of finished records (ACKNOWLEDGED or ARCHIVED)."""
        return self._terminal_count

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest lock deadline, or None if nothing is locked."""
        return self._closed.summary.next_deadline_ms if self._closed else self.locks.next_deadline_ms()

    @property
    def members(self) -> tuple[str, ...]:
        """The ids of the holders of records (members, and `reserver_id`s of gateways), sorted."""
        return self._closed.summary.members if self._closed else tuple(self.locks.members())

    @property
    def available_count(self) -> int:
        """The number of AVAILABLE records."""
        return self._closed.summary.available_count if self._closed else self.available.count

    @property
    def first_available(self) -> int | None:
        """The lowest AVAILABLE offset, or None if there is none."""
        return self._closed.summary.first_available if self._closed else self.available.first_offset

    @property
    def most_delivered(self) -> int:
        """The highest delivery count of an AVAILABLE record, or 0 if none was delivered more than once."""
        return self._closed.summary.most_delivered if self._closed else self.available.most_delivered

    # -- open and closed -------------------------------------------------------------------------------------------

    def _open(self) -> RangeMap[InFlightRecord]:
        if self._records is None:
            assert self._closed is not None
            self._records = _read(*self._closed)
        return self._records


def _content(ranges: RangeMap[InFlightRecord], summary: PieceSummary) -> list[Any]:
    """Encode the ranges as three lists: lengths, record numbers, and the distinct `InFlightRecord`s.

    The first two lists have one entry for each range and each hole, in the order of the offsets. The record number of a
    range is the index of its `InFlightRecord` in the third list; that of a hole is `_HOLE`. In an encoded
    `InFlightRecord`, the offsets of the fetch batch are relative to the piece's first offset. A member that holds
    records is stored as its index in `summary.members`, a previous holder as its id, and no member as `_NOBODY`.
    """
    base = summary.first_offset
    lengths: list[int] = []
    rows: list[int] = []
    table: dict[InFlightRecord, int] = {}
    expected = base
    for first, last, record in ranges:
        if first != expected:
            lengths.append(first - expected)
            rows.append(_HOLE)
        expected = last + 1
        lengths.append(expected - first)
        rows.append(table.setdefault(record, len(table)))
    places: dict[str | None, int] = {member: place for place, member in enumerate(summary.members)}
    packed = [
        [
            int(state),
            count,
            places.get(member, _NOBODY if member is None else member),
            deadline,
            *((batch_first - base, batch_last - base) if batch_last >= 0 else ()),
        ]
        for state, count, member, deadline, batch_first, batch_last in table
    ]
    return [lengths, rows, packed]


def _text(content: list[Any]) -> str:
    """Return the content as one line of compressed text. Many small ranges take less than a byte each."""
    return pack_text(to_json(content))


def _read(summary: PieceSummary, content: Content) -> RangeMap[InFlightRecord]:
    """Decode ranges that `_content` or `_text` encoded."""
    lengths, rows, packed = unpack_json(content) if isinstance(content, str) else content
    table = [_unpacked(row, summary) for row in packed]
    firsts = list(accumulate(lengths, initial=summary.first_offset))
    lasts = [offset - 1 for offset in firsts[1:]]
    firsts.pop()
    if _HOLE in rows:
        known = [i for i, row in enumerate(rows) if row != _HOLE]
        firsts, lasts, rows = [firsts[i] for i in known], [lasts[i] for i in known], [rows[i] for i in known]
    return RangeMap.from_columns(firsts, lasts, [table[row] for row in rows])


_STATES = {int(state): state for state in RecordState}


def _unpacked(row: list[Any], summary: PieceSummary) -> InFlightRecord:
    state, count, place, deadline, *batch = row
    member = place if isinstance(place, str) else None if place == _NOBODY else summary.members[place]
    record = InFlightRecord(_STATES[state], count, member, deadline)
    if not batch:
        return record
    base = summary.first_offset
    return record._replace(batch_first=batch[0] + base, batch_last=batch[1] + base)


def _owner(record: InFlightRecord) -> tuple[str, int]:
    """Return member and deadline of an ACQUIRED record, which always has both."""
    assert record.member_id is not None
    assert record.lock_deadline_ms is not None
    return record.member_id, record.lock_deadline_ms


def _known(offset: int | None) -> int:
    """Return `offset`. It is never None, because a piece is never empty."""
    assert offset is not None
    return offset
