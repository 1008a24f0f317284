"""Buffers offset ranges that were acquired for a member but not sent yet, each with the end of its lock.

No I/O, no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from sharegroup.protocol.range_map import RangeMap
from sharegroup.types import AcquiredRange


class LockedRange(NamedTuple):
    """An acquired range, and when its lock ends (in ms since the epoch)."""

    first_offset: int
    last_offset: int
    delivery_count: int
    lock_deadline_ms: int


class ReadableRanges(NamedTuple):
    """The first ranges of a buffer, all of the same isolation level, and whether this level is read_committed."""

    ranges: list[AcquiredRange]
    read_committed: bool


class _Delivery(NamedTuple):
    delivery_count: int
    lock_deadline_ms: int
    read_committed: bool


class ReadAheadBuffer:
    """A buffer of disjoint acquired ranges, in offset order. Times are in ms since the epoch.

    `len()` returns the number of offsets in the buffer, not the number of ranges.
    """

    def __init__(self) -> None:
        self._ranges: RangeMap[_Delivery] = RangeMap()
        self._by_deadline: Counter[int] = Counter()
        #: The number of buffered offsets.
        self.size = 0

    def __len__(self) -> int:
        return self.size

    def add(self, ranges: Iterable[AcquiredRange], lock_deadline_ms: int, read_committed: bool = False) -> None:
        """Add ranges that were acquired together, so that their locks end at the same time.

        Offsets that are already buffered get the new values.
        """
        for first, last, count in ranges:
            self._remove(first, last)
            self._ranges.assign(first, last, _Delivery(count, lock_deadline_ms, read_committed))
            self._count(lock_deadline_ms, last - first + 1)

    def ranges(self, most: int) -> list[AcquiredRange]:
        """Return the first `most` ranges, in ascending order, without removing them."""
        return [AcquiredRange(first, last, d.delivery_count) for first, last, d in islice(self._ranges, most)]

    def readable_ranges(self, most: int) -> ReadableRanges:
        """Return the first ranges, at most `most`, without removing them.

        The result ends before the first range whose isolation level differs from that of the first range in the buffer.
        """
        ranges: list[AcquiredRange] = []
        read_committed = False
        for first, last, delivery in islice(self._ranges, most):
            if not ranges:
                read_committed = delivery.read_committed
            elif delivery.read_committed != read_committed:
                break
            ranges.append(AcquiredRange(first, last, delivery.delivery_count))
        return ReadableRanges(ranges, read_committed)

    def locked_ranges(self, ranges: Iterable[Sequence[int]]) -> list[LockedRange]:
        """Return the buffered parts of `ranges`, each with the end of its lock.

        Each of `ranges` begins with its first and last offset, and may have other fields.
        """
        return [
            LockedRange(first, last, delivery.delivery_count, delivery.lock_deadline_ms)
            for entry in ranges
            for first, last, delivery in self._ranges.items(entry[0], entry[1])
        ]

    def remove(self, ranges: Iterable[Sequence[int]]) -> int | None:
        """Remove ranges, and return their earliest lock deadline; None if nothing was removed.

        Each range begins with its first and last offset, and may have other fields.
        """
        shortest: int | None = None
        for entry in ranges:
            removed = self._remove(entry[0], entry[1])
            shortest = removed if shortest is None or (removed is not None and removed < shortest) else shortest
        return shortest

    def remove_last(self, records: int) -> list[AcquiredRange]:
        """Remove the `records` highest offsets, and return them as ranges in ascending order."""
        cut: list[AcquiredRange] = []
        for first, last, delivery in reversed(list(self._ranges)):
            if records <= 0:
                break
            first = max(first, last - records + 1)
            records -= last - first + 1
            cut.append(AcquiredRange(first, last, delivery.delivery_count))
        self.remove(cut)
        return cut[::-1]

    def remove_expiring(self, deadline_ms: int) -> list[AcquiredRange]:
        """Remove and return the ranges whose locks end at or before `deadline_ms`, in ascending order."""
        shortest = self.shortest_deadline_ms()
        if shortest is None or shortest > deadline_ms:
            return []
        due = [
            AcquiredRange(first, last, delivery.delivery_count)
            for first, last, delivery in self._ranges
            if delivery.lock_deadline_ms <= deadline_ms
        ]
        for first, last, _ in due:
            self._remove(first, last)
        return due

    def remove_uncommitted(self) -> list[AcquiredRange]:
        """Remove and return the ranges that were acquired with read_uncommitted, in ascending order."""
        found = [
            AcquiredRange(first, last, delivery.delivery_count)
            for first, last, delivery in self._ranges
            if not delivery.read_committed
        ]
        self.remove(found)
        return found

    def shortest_deadline_ms(self) -> int | None:
        """Return when the first lock in the buffer ends; None if the buffer is empty."""
        return min(self._by_deadline, default=None)

    def _remove(self, first: int, last: int) -> int | None:
        """Remove offsets first..last. Return the earliest end of their locks, or None if no offset was buffered."""
        shortest: int | None = None
        for piece_first, piece_last, delivery in self._ranges.items(first, last):
            deadline_ms = delivery.lock_deadline_ms
            self._count(deadline_ms, piece_first - piece_last - 1)
            shortest = deadline_ms if shortest is None else min(shortest, deadline_ms)
        if shortest is not None:
            self._ranges.discard(first, last)
        return shortest

    def _count(self, deadline_ms: int, records: int) -> None:
        self.size += records
        self._by_deadline[deadline_ms] += records
        if not self._by_deadline[deadline_ms]:
            del self._by_deadline[deadline_ms]
