"""An ordered map from disjoint, inclusive offset ranges to values.

This is the only interval structure of the project. It is used for the in-flight records of a share-partition, and for
the state batches of the share coordinator. Both have long runs of offsets with equal values. Time and memory depend on
the number of ranges, never on the number of offsets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, Self, TypeVar

V = TypeVar("V")


class RangeMap(Generic[V]):
    """Map from offset ranges to values. It stores the first offsets, the last offsets and the values in three lists.

    The lists are parallel, in the order of the offsets. `assign` cuts the ranges that the new range overlaps, and
    merges ("fuses") the new range with adjacent ranges of equal value. The stored ranges therefore depend only on the
    value of each offset. Two maps are equal if and only if all offsets have the same values in both. Examples of
    `assign`::

        assign X into nothing          .......        .......
                                         XXX      ->  ..XXX..

        overlap on the left            AAAAA..        AAXXX..
                                         XXX      ->

        overlap on the right           ..BBBBB        .XXXBBB
                                        XXX       ->

        inside one range               AAAAAAA        AAXXXAA
                                         XXX      ->

        over several ranges            AABBCDD        AXXXXXD
                                        XXXXX     ->

        equal neighbours fuse          XX...BB        XXXXXBB    (one range of five)
                                         XXX      ->

        equal neighbour on both sides  XX.A.XX        XXXXXXX    (one range of seven)
                                         XXX      ->

    Offsets without a value are called holes. `items` skips holes, and ranges are never fused across a hole. Each
    operation costs O(log n + affected ranges), plus the cost of moving the list items after the affected ranges. Values
    are compared with `==` and must not be modified in place.
    """

    __slots__ = ("_firsts", "_lasts", "_values")

    def __init__(self, items: Iterable[tuple[int, int, V]] = ()) -> None:
        """Create a map from `items`: (first offset, last offset, value). If items overlap, the later item applies."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._values: list[V] = []
        for first, last, value in items:
            self.assign(first, last, value)

    @classmethod
    def from_columns(cls, firsts: list[int], lasts: list[int], values: list[V]) -> RangeMap[V]:
        """Return a map that uses these lists, without copying them.

        The ranges must be sorted, disjoint and fused, as `columns` returns them. This is not checked.
        """
        ranges = cls.__new__(cls)
        ranges._firsts, ranges._lasts, ranges._values = firsts, lasts, values
        return ranges

    def columns(self) -> tuple[list[int], list[int], list[V]]:
        """Return the internal lists of first offsets, last offsets and values, without copying them."""
        return self._firsts, self._lasts, self._values

    def assign(self, first: int, last: int, value: V) -> None:
        """Set the value of all offsets in first..last (inclusive). Raises ValueError for an empty range."""
        _check(first, last)
        firsts, lasts, values = self._firsts, self._lasts, self._values
        if not lasts or first > lasts[-1]:  # the common case: a range after all others
            if lasts and lasts[-1] + 1 == first and values[-1] == value:
                lasts[-1] = last
            else:
                firsts.append(first)
                lasts.append(last)
                values.append(value)
            return
        # The ranges low..high-1 overlap first..last or are adjacent to it.
        low = bisect_left(lasts, first - 1)
        high = bisect_right(firsts, last + 1)
        new_first, new_last = first, last
        before: list[tuple[int, int, V]] = []
        after: list[tuple[int, int, V]] = []
        if low < high:
            if firsts[low] < first:
                if values[low] == value:
                    new_first = firsts[low]
                else:
                    before.append((firsts[low], first - 1, values[low]))
            if lasts[high - 1] > last:
                if values[high - 1] == value:
                    new_last = lasts[high - 1]
                else:
                    after.append((last + 1, lasts[high - 1], values[high - 1]))
        self._replace(low, high, [*before, (new_first, new_last, value), *after])

    def discard(self, first: int, last: int) -> None:
        """Remove the values of first..last (inclusive). Raises ValueError for an empty range."""
        _check(first, last)
        firsts, lasts, values = self._firsts, self._lasts, self._values
        low = bisect_left(lasts, first)
        high = bisect_right(firsts, last)
        if low >= high:
            return
        rest: list[tuple[int, int, V]] = []
        if firsts[low] < first:
            rest.append((firsts[low], first - 1, values[low]))
        if lasts[high - 1] > last:
            rest.append((last + 1, lasts[high - 1], values[high - 1]))
        self._replace(low, high, rest)

    def trim_below(self, offset: int) -> None:
        high = bisect_left(self._lasts, offset)
        if high:
            del self._firsts[:high], self._lasts[:high], self._values[:high]
        if self._firsts and self._firsts[0] < offset:
            self._firsts[0] = offset

    def clear(self) -> None:
        del self._firsts[:], self._lasts[:], self._values[:]

    def items(self, first: int | None = None, last: int | None = None) -> Iterator[tuple[int, int, V]]:
        """Yield (first offset, last offset, value) of each range in order.

        If `first` or `last` is given, offsets before `first` and after `last` are left out, and a range that contains
        one of these limits is shortened. The map must not be modified during the iteration.
        """
        firsts, lasts, values = self._firsts, self._lasts, self._values
        low = 0 if first is None else bisect_left(lasts, first)
        high = len(firsts) if last is None else bisect_right(firsts, last)
        for i in range(low, high):
            range_first, range_last = firsts[i], lasts[i]
            if first is not None and range_first < first:
                range_first = first
            if last is not None and range_last > last:
                range_last = last
            yield range_first, range_last, values[i]

    def holes(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of offsets in first..last that have no value, in order."""
        return holes_between(self.items(first, last), first, last)

    @property
    def first_offset(self) -> int | None:
        """The lowest offset with a value; None if the map is empty."""
        return self._firsts[0] if self._firsts else None

    @property
    def last_offset(self) -> int | None:
        """The highest offset with a value; None if the map is empty."""
        return self._lasts[-1] if self._lasts else None

    def __len__(self) -> int:
        """Return the number of ranges (not of offsets)."""
        return len(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int, V]]:
        return self.items()

    def __reversed__(self) -> Iterator[tuple[int, int, V]]:
        return zip(reversed(self._firsts), reversed(self._lasts), reversed(self._values), strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeMap):
            return NotImplemented
        return self._firsts == other._firsts and self._lasts == other._lasts and bool(self._values == other._values)

    __hash__ = None  # type: ignore[assignment]  # mutable, like dict

    def __repr__(self) -> str:
        return f"RangeMap({list(self.items())!r})"

    def _replace(self, low: int, high: int, ranges: list[tuple[int, int, V]]) -> None:
        if len(ranges) == 1 and high - low == 1:  # in place, without moving the slices behind it
            self._firsts[low], self._lasts[low], self._values[low] = ranges[0]
            return
        self._firsts[low:high] = [r[0] for r in ranges]
        self._lasts[low:high] = [r[1] for r in ranges]
        self._values[low:high] = [r[2] for r in ranges]


def _check(first: int, last: int) -> None:
    if first > last:
        raise ValueError(f"the first offset of the range is after its last offset: {first}..{last}")


class _Range(Protocol):
    """A named tuple whose first fields are `first_offset` and `last_offset`, both inclusive."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    def __getitem__(self, fields: slice, /) -> tuple[Any, ...]: ...

    def _replace(self, *, last_offset: int) -> Self: ...


R = TypeVar("R", bound=_Range)


def append_fused(ranges: list[R], item: R) -> None:
    """Append a range to a list of named tuples, or merge the range with the last range of the list.

    As in `RangeMap`, the two are merged if `item` directly follows the last range and all other fields are equal. The
    list does not have to be sorted.
    """
    if ranges:
        last = ranges[-1]
        if last.last_offset + 1 == item.first_offset and last[2:] == item[2:]:
            ranges[-1] = last._replace(last_offset=item.last_offset)
            return
    ranges.append(item)


def holes_between(items: Iterable[tuple[int, int, Any]], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets in first..last that are in no item.

    The items must be sorted, disjoint and within first..last.
    """
    expected = first
    for range_first, range_last, _ in items:
        if range_first > expected:
            yield expected, range_first - 1
        expected = range_last + 1
    if expected <= last:
        yield expected, last
