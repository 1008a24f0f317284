"""An index of the AVAILABLE records in flight, which a fetch acquires first (KIP-932, "Fetching and acquiring").

The index is not stored, because it can be rebuilt from the records in flight.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from sharegroup.protocol.range_map import RangeMap

R = TypeVar("R")

#: Records with a lower delivery count are never delivered in smaller portions, so they are not indexed by count.
_LOWEST_THRESHOLD = 2


class AvailableRecords(Generic[R]):
    """AVAILABLE offset ranges with their records.

    Ranges that were delivered at least twice are also indexed by delivery count.

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
        """The highest delivery count of an AVAILABLE record, or 0 if no record was delivered more than once."""
        return max((count for count, ranges in self._by_count.items() if ranges), default=0)

    def items(self, first: int, last: int) -> Iterator[tuple[int, int, R]]:
        """Yield the ranges within first..last, in offset order."""
        return self._ranges.items(first, last)

    def has_delivered(self, times: int, first: int, last: int) -> bool:
        """Return whether a record of first..last was delivered at least `times` times. `times` must be 2 or more."""
        return any(
            count >= times and any(True for _ in ranges.items(first, last)) for count, ranges in self._by_count.items()
        )
