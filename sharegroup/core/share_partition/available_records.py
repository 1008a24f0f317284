"""Records of the window that are AVAILABLE again: what a fetch looks at first (KIP-932, "Fetching and acquiring").

An index beside the window, like `acquisition_locks`: made from it, and thrown away with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from sharegroup.protocol.range_map import RangeMap

R = TypeVar("R")

#: Throttling never starts below this delivery count, so lower ones need no index of their own.
_LOWEST_THRESHOLD = 2


class AvailableRecords(Generic[R]):
    """Offset ranges to their records, and apart from that the ranges of each high delivery count.

    count: the number of records.
    """

    __slots__ = ("_by_count", "_ranges", "count")

    def __init__(self) -> None:
        self._ranges: RangeMap[R] = RangeMap()
        self._by_count: dict[int, RangeMap[None]] = {}
        self.count = 0

    def add(self, first: int, last: int, record: R, delivery_count: int) -> None:
        """Add first..last, which is not there yet."""
        self._ranges.assign(first, last, record)
        self.count += last - first + 1
        if delivery_count >= _LOWEST_THRESHOLD:
            self._by_count.setdefault(delivery_count, RangeMap()).assign(first, last, None)

    def remove(self, first: int, last: int, delivery_count: int) -> None:
        """Take first..last away."""
        self._ranges.discard(first, last)
        self.count -= last - first + 1
        if delivery_count >= _LOWEST_THRESHOLD:
            self._by_count[delivery_count].discard(first, last)

    @property
    def first_offset(self) -> int | None:
        """The lowest AVAILABLE offset, or None."""
        return self._ranges.first_offset

    @property
    def most_delivered(self) -> int:
        """The highest delivery count of any record, if it is 2 or more, else 0."""
        return max((count for count, ranges in self._by_count.items() if ranges), default=0)

    def items(self, first: int, last: int) -> Iterator[tuple[int, int, R]]:
        """The ranges in order, clipped to first..last."""
        return self._ranges.items(first, last)

    def any_delivered(self, times: int, first: int, last: int) -> bool:
        """Whether any record of first..last was delivered at least `times` times; `times` is 2 or more."""
        return any(
            count >= times and any(True for _ in ranges.items(first, last)) for count, ranges in self._by_count.items()
        )
