"""The AVAILABLE records of the window, which a fetch acquires first (KIP-932, "Fetching and acquiring").

Like `acquisition_locks`, this is an index of the in-flight window. It is not stored, but built from the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from sharegroup.protocol.range_map import RangeMap

R = TypeVar("R")

#: Throttling never starts below this delivery count, so lower counts need no index.
_LOWEST_THRESHOLD = 2


class AvailableRecords(Generic[R]):
    """AVAILABLE offset ranges with their records, and an index of the ranges with delivery counts of 2 or more.

    Attributes:
        count: The number of AVAILABLE records.
    """

    __slots__ = ("_by_count", "_ranges", "count")

    def __init__(self) -> None:
        self._ranges: RangeMap[R] = RangeMap()
        self._by_count: dict[int, RangeMap[None]] = {}
        self.count = 0

    def add(self, first: int, last: int, record: R, delivery_count: int) -> None:
        """Add first..last. The offsets must not be in the index yet."""
        self._ranges.assign(first, last, record)
        self.count += last - first + 1
        if delivery_count >= _LOWEST_THRESHOLD:
            self._by_count.setdefault(delivery_count, RangeMap()).assign(first, last, None)

    def remove(self, first: int, last: int, delivery_count: int) -> None:
        """Remove first..last, which must be in the index with this delivery count."""
        self._ranges.discard(first, last)
        self.count -= last - first + 1
        if delivery_count >= _LOWEST_THRESHOLD:
            self._by_count[delivery_count].discard(first, last)

    @property
    def first_offset(self) -> int | None:
        """The lowest AVAILABLE offset, or None if there is none."""
        return self._ranges.first_offset

    @property
    def most_delivered(self) -> int:
        """The highest delivery count of the records, or 0 if it is below 2."""
        return max((count for count, ranges in self._by_count.items() if ranges), default=0)

    def items(self, first: int, last: int) -> Iterator[tuple[int, int, R]]:
        """Return the ranges in offset order, clipped to first..last."""
        return self._ranges.items(first, last)

    def has_delivered(self, times: int, first: int, last: int) -> bool:
        """Return whether a record of first..last was delivered at least `times` times; `times` is at least 2."""
        return any(
            count >= times and any(True for _ in ranges.items(first, last)) for count, ranges in self._by_count.items()
        )
