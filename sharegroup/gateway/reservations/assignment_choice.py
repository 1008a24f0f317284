"""Divides records that have arrived among the members that wait for records. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from sharegroup.types import OffsetRange

M = TypeVar("M", bound=Hashable)


class Candidate(NamedTuple, Generic[M]):
    """A waiting member, and the number of records that it may receive now."""

    member: M
    room: int


class Assignment(NamedTuple, Generic[M]):
    """The offset ranges that are assigned to a member, in ascending order."""

    member: M
    ranges: tuple[OffsetRange, ...]


def choose_members(
    ranges: Sequence[OffsetRange], candidates: Sequence[Candidate[M]], at_least: int
) -> list[Assignment[M]]:
    """Divide `ranges` among `candidates`. The candidates that were served least recently must come first in the list.

    Each candidate receives an equal share of the records or `at_least` records, whichever is more, but at most its
    `room`. If there are only a few records, one member thus receives all of them. This saves rows, because each
    assignment costs a row. Offsets are assigned in ascending order. Offsets for which no candidate has room stay
    unassigned.
    """
    total = sum(last - first + 1 for first, last in ranges)
    left = list(ranges)
    chosen: list[Assignment[M]] = []
    for number, (member, room) in enumerate(candidates):
        share = max(at_least, -(-total // (len(candidates) - number)))
        taken = _take(left, min(room, share))
        if taken:
            total -= sum(last - first + 1 for first, last in taken)
            chosen.append(Assignment(member, taken))
    return chosen


def _take(left: list[OffsetRange], records: int) -> tuple[OffsetRange, ...]:
    """Remove the first `records` offsets from `left` and return them."""
    taken: list[OffsetRange] = []
    while left and records > 0:
        first, last = left[0]
        end = min(last, first + records - 1)
        taken.append(OffsetRange(first, end))
        records -= end - first + 1
        if end == last:
            del left[0]
        else:
            left[0] = OffsetRange(end + 1, last)
    return tuple(taken)
