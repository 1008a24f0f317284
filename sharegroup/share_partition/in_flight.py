"""The in-flight window: what is known of the records from the start offset (SPSO) up to the end offset (SPEO).

One `RangeMap` of records is the truth. Beside it are two indexes, for what would else need a scan of the window: the
AVAILABLE ranges, and the acquisition locks. They are made from the window when first asked for, and kept in step from
then on; a window that is restored only to be written back never pays for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from sharegroup.errors import IllegalTransitionError
from sharegroup.range_map import RangeMap, append_fused
from sharegroup.share_partition.acquisition_locks import AcquisitionLocks
from sharegroup.share_partition.available_records import AvailableRecords
from sharegroup.share_partition.record_state import ACQUIRED, AVAILABLE, check_transition
from sharegroup.types import Cause, RecordState, StateBatch, Transition

#: A hole in `dump`: offsets of the window of which nothing is known.
_HOLE = -1


class InFlightRecord(NamedTuple):
    """What is known of each record of a range.

    `batch_first`..`batch_last` is the fetch batch the record belongs to, for throttling: the range that one fetch took
    from the log, or one batch of the loaded state. Terminal records are in none (-1, -1), so that they fuse.
    """

    state: RecordState
    delivery_count: int
    member_id: str | None = None
    lock_deadline_ms: int | None = None
    batch_first: int = -1
    batch_last: int = -1


class InFlight:
    """Offset ranges to `InFlightRecord`, with the number of terminal records and the two indexes."""

    __slots__ = ("_available", "_locks", "_records", "terminal_count")

    def __init__(self, records: Iterable[tuple[int, int, InFlightRecord]] = ()) -> None:
        self._records: RangeMap[InFlightRecord] = RangeMap()
        self._available: AvailableRecords[InFlightRecord] | None = None
        self._locks: AcquisitionLocks | None = None
        self.terminal_count = 0
        for first, last, record in records:
            self.assign(first, last, record)

    def assign(self, first: int, last: int, record: InFlightRecord) -> None:
        """Set every record of first..last, whatever it was before."""
        for old_first, old_last, old in self._records.items(first, last):
            self._forget(old_first, old_last, old)
        self._records.assign(first, last, record)
        if record.state is ACQUIRED:
            if self._locks is not None:
                _lock(self._locks, first, last, record)
        elif record.state is AVAILABLE:
            if self._available is not None:
                self._available.add(first, last, record, record.delivery_count)
        else:
            self.terminal_count += last - first + 1

    def check(self, transition: Transition, start_offset: int) -> None:
        """Raise IllegalTransitionError unless all records are in `from_state` and the table has the rest.

        Only a fetch may name offsets of which nothing is known, from `start_offset` on: it takes them from the log.
        """
        first, last, from_state, to_state, cause = transition[:5]
        check_transition(from_state, to_state, cause)
        known = 0
        for known_first, known_last, record in self._records.items(first, last):
            known += known_last - known_first + 1
            if record.state is not from_state:
                found = f"{known_first}..{known_last} is {record.state.name}"
                raise IllegalTransitionError(f"{found}, not {from_state.name} (because of {cause.value})")
        if known <= last - first and (cause is not Cause.FETCH or first < start_offset):
            raise IllegalTransitionError(f"{first}..{last} is not in flight (because of {cause.value})")

    def trim_below(self, offset: int) -> None:
        """Forget every record below `offset`."""
        first_offset = self._records.first_offset
        if first_offset is None or first_offset >= offset:
            return
        for first, last, record in self._records.items(None, offset - 1):
            self._forget(first, last, record)
        self._records.trim_below(offset)

    def clear(self) -> None:
        """Forget every record: the window begins anew."""
        self._records.clear()
        self._available = self._locks = None
        self.terminal_count = 0

    def items(self, first: int | None = None, last: int | None = None) -> Iterator[tuple[int, int, InFlightRecord]]:
        """The ranges in order, clipped to first..last where given."""
        return self._records.items(first, last)

    def holes(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The ranges of first..last of which nothing is known."""
        return self._records.holes(first, last)

    def record_at(self, offset: int) -> InFlightRecord | None:
        """The record at `offset`, or None when nothing is known of it."""
        return self._records.value_at(offset)

    @property
    def first_offset(self) -> int | None:
        """The lowest known offset, or None when the window is empty."""
        return self._records.first_offset

    @property
    def last_offset(self) -> int | None:
        """The highest known offset, or None when the window is empty."""
        return self._records.last_offset

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self._records)

    @property
    def available(self) -> AvailableRecords[InFlightRecord]:
        """The AVAILABLE ranges only."""
        if self._available is None:
            self._available = AvailableRecords()
            for first, last, record in self._records:
                if record.state is AVAILABLE:
                    self._available.add(first, last, record, record.delivery_count)
        return self._available

    @property
    def locks(self) -> AcquisitionLocks:
        """The acquisition locks of the ACQUIRED ranges."""
        if self._locks is None:
            self._locks = AcquisitionLocks()
            for first, last, record in self._records:
                if record.state is ACQUIRED:
                    _lock(self._locks, first, last, record)
        return self._locks

    def state_batches(self, first: int | None = None, last: int | None = None) -> list[StateBatch]:
        """The ranges as StateBatches of first..last, neighbours equal in everything that is durable fused."""
        batches: list[StateBatch] = []
        for range_first, range_last, record in self._records.items(first, last):
            append_fused(batches, StateBatch(range_first, range_last, *record[:4]))
        return batches

    def dump(self, base: int) -> list[Any]:
        """The window as a JSON-able list, offsets relative to `base`: see `restore`.

        Ranges are two columns, lengths and indexes into a table of distinct records; members are in a table too. So a
        window of many small ranges costs a few bytes for each.
        """
        firsts, lasts, records = self._records.columns()
        if not firsts:
            return []
        lengths: list[int] = []
        rows: list[int] = []
        table: dict[InFlightRecord, int] = {}
        expected = firsts[0]
        for first, last, record in zip(firsts, lasts, records, strict=True):
            if first != expected:
                lengths.append(first - expected)
                rows.append(_HOLE)
            expected = last + 1
            lengths.append(expected - first)
            rows.append(table.setdefault(record, len(table)))
        members: dict[str | None, int] = {}
        packed = [
            [
                int(state),
                count,
                members.setdefault(member, len(members)),
                deadline,
                *((batch_first - base, batch_last - base) if batch_last >= 0 else ()),
            ]
            for state, count, member, deadline, batch_first, batch_last in table
        ]
        return [firsts[0] - base, lengths, rows, packed, list(members)]

    @classmethod
    def restore(cls, obj: list[Any], base: int, terminal_count: int) -> InFlight:
        """The window that `dump(base)` wrote; `terminal_count` is the attribute's value then."""
        window = cls()
        window.terminal_count = terminal_count
        if obj:
            first, lengths, rows, packed, members = obj
            table = [_unpack(row, members, base) for row in packed]
            firsts = list(accumulate(lengths, initial=first + base))
            lasts = [offset - 1 for offset in firsts[1:]]
            firsts.pop()
            if _HOLE in rows:
                known = [i for i, row in enumerate(rows) if row != _HOLE]
                firsts, lasts, rows = [firsts[i] for i in known], [lasts[i] for i in known], [rows[i] for i in known]
            window._records = RangeMap.from_columns(firsts, lasts, [table[row] for row in rows])
        return window

    def _forget(self, first: int, last: int, record: InFlightRecord) -> None:
        """Take a range out of the indexes and the count; the window itself is changed by the caller."""
        if record.state is ACQUIRED:
            if self._locks is not None:
                self._locks.remove(first, last, *_owner(record))
        elif record.state is AVAILABLE:
            if self._available is not None:
                self._available.remove(first, last, record.delivery_count)
        else:
            self.terminal_count -= last - first + 1


_STATES = {int(state): state for state in RecordState}


def _unpack(row: list[Any], members: list[str | None], base: int) -> InFlightRecord:
    record = InFlightRecord(_STATES[row[0]], row[1], members[row[2]], row[3])
    return record if len(row) == 4 else record._replace(batch_first=row[4] + base, batch_last=row[5] + base)


def _lock(locks: AcquisitionLocks, first: int, last: int, record: InFlightRecord) -> None:
    locks.add(first, last, *_owner(record))


def _owner(record: InFlightRecord) -> tuple[str, int]:
    """Member and deadline of an ACQUIRED record, which always has both."""
    assert record.member_id is not None
    assert record.lock_deadline_ms is not None
    return record.member_id, record.lock_deadline_ms
