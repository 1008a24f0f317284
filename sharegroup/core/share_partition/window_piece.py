"""A piece of the in-flight window: neighbouring ranges, or what they were dumped to.

A piece that nobody touches stays closed: only its summary is read, which answers what is asked of every piece of a
window. One `RangeMap` of records is the truth of a piece that is open. Beside it are two indexes, for what would else
need a scan: the AVAILABLE ranges, and the acquisition locks. They are made when first asked for, and kept in step.
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

#: In a piece's content: offsets of which nothing is known, and a record that nobody holds.
_HOLE = -1
_NOBODY = -1
#: So many ranges are no text of their own: reading and writing one takes longer than what they are.
_FEW_RANGES = 32


class PieceSummary(NamedTuple):
    """What is asked of a piece without opening it; offsets are inclusive, None where there is nothing.

    `ranges`: how many it has. `most_delivered`: of its AVAILABLE records, as far as it is 2 or more, else 0.
    `members`: who holds records, sorted.
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
        """JSON-able, offsets relative to `base`: see `restore`."""
        first_available = None if self.first_available is None else self.first_available - base
        return [
            self.first_offset - base, self.last_offset - base, *self[2:6], first_available, self.most_delivered,
            list(self.members),
        ]  # fmt: skip

    @classmethod
    def restore(cls, dumped: Sequence[Any], base: int) -> PieceSummary:
        """What `dump(base)` wrote."""
        first, last, ranges, terminal_count, deadline, available, first_available, most_delivered, members = dumped
        return cls(
            first + base, last + base, ranges, terminal_count, deadline, available,
            None if first_available is None else first_available + base, most_delivered, tuple(members),
        )  # fmt: skip


#: The ranges of a piece: a list, JSON-able, or a text of one line.
Content: TypeAlias = list[Any] | str


class ClosedPiece(NamedTuple):
    """A piece between two micro-batches."""

    summary: PieceSummary
    content: Content


class WindowPiece:
    """Offset ranges to `InFlightRecord`. One that has become empty is nothing; its owner drops it."""

    __slots__ = ("_available", "_kept", "_locks", "_records", "_terminal_count")

    def __init__(
        self, firsts: Sequence[int] = (), lasts: Sequence[int] = (), records: Sequence[InFlightRecord] = ()
    ) -> None:
        """Of parallel lists of first offsets, last offsets and records: sorted, disjoint, fused."""
        self._records: RangeMap[InFlightRecord] | None = RangeMap.from_columns(list(firsts), list(lasts), list(records))
        self._terminal_count = sum(
            last - first + 1
            for first, last, record in zip(firsts, lasts, records, strict=True)
            if record.state.is_terminal
        )
        self._available: AvailableRecords[InFlightRecord] | None = None
        self._locks: AcquisitionLocks | None = None
        #: While nothing has changed since it was made.
        self._kept: ClosedPiece | None = None

    @classmethod
    def closed(cls, summary: PieceSummary, content: Content) -> WindowPiece:
        """The piece that `close` gave, to be opened when somebody touches it."""
        piece = cls.__new__(cls)
        piece._records = piece._available = piece._locks = None
        piece._terminal_count, piece._kept = summary.terminal_count, ClosedPiece(summary, content)
        return piece

    @property
    def is_changed(self) -> bool:
        """Whether it is other than when it was closed last."""
        return self._kept is None

    def close(self) -> ClosedPiece:
        """What it is between two micro-batches; the same as before if nothing has changed."""
        if self._kept is None:
            summary = PieceSummary(
                self.first_offset, self.last_offset, self.ranges, self._terminal_count, self.next_deadline_ms,
                self.available_count, self.first_available, self.most_delivered, self.members,
            )  # fmt: skip
            content = _content(self._open(), summary)
            self._kept = ClosedPiece(summary, content if self.ranges <= _FEW_RANGES else _text(content))
        return self._kept

    # -- changes ---------------------------------------------------------------------------------------------------

    def assign(self, first: int, last: int, record: InFlightRecord) -> None:
        """Set every record of first..last, whatever it was before."""
        self._forget(first, last)
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
        """Forget every record of first..last."""
        self._forget(first, last)
        self._open().discard(first, last)

    def taking_over(self, behind: WindowPiece) -> WindowPiece:
        """One piece of this one and the next."""
        piece = WindowPiece(*self._open().columns())
        for first, last, record in behind.items():
            piece.assign(first, last, record)
        return piece

    def split(self, ranges: int) -> Iterator[WindowPiece]:
        """The same in pieces of as many ranges."""
        firsts, lasts, records = self._open().columns()
        for i in range(0, len(firsts), ranges):
            yield WindowPiece(firsts[i : i + ranges], lasts[i : i + ranges], records[i : i + ranges])

    def _forget(self, first: int, last: int) -> None:
        """Take records out of the indexes and the count; the map itself is changed by the caller."""
        records, self._kept = self._open(), None
        for old_first, old_last, old in records.items(first, last):
            if old.state is ACQUIRED:
                if self._locks is not None:
                    self._locks.remove(old_first, old_last, *_owner(old))
            elif old.state is AVAILABLE:
                if self._available is not None:
                    self._available.remove(old_first, old_last, old.delivery_count)
            else:
                self._terminal_count -= old_last - old_first + 1

    # -- what is in it ---------------------------------------------------------------------------------------------

    def items(self, first: int | None = None, last: int | None = None) -> Iterator[tuple[int, int, InFlightRecord]]:
        """The ranges in order, clipped to first..last where given."""
        return self._open().items(first, last)

    @property
    def available(self) -> AvailableRecords[InFlightRecord]:
        """The AVAILABLE ranges only."""
        if self._available is None:
            self._available = AvailableRecords()
            for first, last, record in self._open():
                if record.state is AVAILABLE:
                    self._available.add(first, last, record, record.delivery_count)
        return self._available

    @property
    def locks(self) -> AcquisitionLocks:
        """The acquisition locks of the ACQUIRED ranges."""
        if self._locks is None:
            self._locks = AcquisitionLocks()
            for first, last, record in self._open():
                if record.state is ACQUIRED:
                    self._locks.add(first, last, *_owner(record))
        return self._locks

    # -- what its summary tells, too -------------------------------------------------------------------------------

    @property
    def first_offset(self) -> int:
        """The lowest offset."""
        return self._kept.summary.first_offset if self._kept else _known(self._open().first_offset)

    @property
    def last_offset(self) -> int:
        """The highest offset."""
        return self._kept.summary.last_offset if self._kept else _known(self._open().last_offset)

    @property
    def ranges(self) -> int:
        """The number of ranges."""
        return self._kept.summary.ranges if self._kept else len(self._open())

    @property
    def terminal_count(self) -> int:
        """The number of terminal records."""
        return self._terminal_count

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest lock deadline, or None when nothing is locked."""
        return self._kept.summary.next_deadline_ms if self._kept else self.locks.next_deadline_ms()

    @property
    def members(self) -> tuple[str, ...]:
        """Who holds records, sorted."""
        return self._kept.summary.members if self._kept else tuple(self.locks.members())

    @property
    def available_count(self) -> int:
        """The number of AVAILABLE records."""
        return self._kept.summary.available_count if self._kept else self.available.count

    @property
    def first_available(self) -> int | None:
        """The lowest AVAILABLE offset, or None."""
        return self._kept.summary.first_available if self._kept else self.available.first_offset

    @property
    def most_delivered(self) -> int:
        """The highest delivery count of an AVAILABLE record, if it is 2 or more, else 0."""
        return self._kept.summary.most_delivered if self._kept else self.available.most_delivered

    # -- open and closed -------------------------------------------------------------------------------------------

    def _open(self) -> RangeMap[InFlightRecord]:
        if self._records is None:
            assert self._kept is not None
            self._records = _read(*self._kept)
        return self._records


def _content(ranges: RangeMap[InFlightRecord], summary: PieceSummary) -> list[Any]:
    """Ranges as two columns, lengths and indexes into a table of distinct records; offsets are relative to the first.

    Members that hold records are told by their place in the summary, those that have held some by their ids.
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
    """One line; many small ranges cost less than a byte each."""
    return pack_text(to_json(content))


def _read(summary: PieceSummary, content: Content) -> RangeMap[InFlightRecord]:
    """The inverse of `_content`, and of `_text`."""
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
    """Member and deadline of an ACQUIRED record, which always has both."""
    assert record.member_id is not None
    assert record.lock_deadline_ms is not None
    return record.member_id, record.lock_deadline_ms


def _known(offset: int | None) -> int:
    """Of a piece that is not empty."""
    assert offset is not None
    return offset
