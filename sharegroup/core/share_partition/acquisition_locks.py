"""Acquisition locks: which member holds which offsets, and until when (KIP-932, "In-flight records").

This index of the records in flight finds three things without a scan of all records: the earliest deadline, the expired
locks, and the records that a member holds. It is not stored, because it can be rebuilt from the records.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from sharegroup.protocol.range_map import RangeMap


class AcquisitionLocks:
    """An index of locked offset ranges, by deadline and by member. Deadlines are in milliseconds since the epoch."""

    __slots__ = ("_by_deadline", "_by_member", "_deadlines")

    def __init__(self) -> None:
        self._by_deadline: dict[int, RangeMap[str]] = {}
        self._by_member: dict[str, RangeMap[int]] = {}
        self._deadlines: list[int] = []  # the keys of _by_deadline, sorted

    def add(self, first: int, last: int, member_id: str, deadline_ms: int) -> None:
        """Lock first..last for a member. The offsets must not be locked yet."""
        held = self._by_member.get(member_id)
        if held is None:
            held = self._by_member[member_id] = RangeMap()
        held.assign(first, last, deadline_ms)
        locked = self._by_deadline.get(deadline_ms)
        if locked is None:
            locked = self._by_deadline[deadline_ms] = RangeMap()
            insort(self._deadlines, deadline_ms)
        locked.assign(first, last, member_id)

    def remove(self, first: int, last: int, member_id: str, deadline_ms: int) -> None:
        """Unlock first..last, which `member_id` holds until `deadline_ms`."""
        held = self._by_member[member_id]
        held.discard(first, last)
        if not held:
            del self._by_member[member_id]
        locked = self._by_deadline[deadline_ms]
        locked.discard(first, last)
        if not locked:
            del self._by_deadline[deadline_ms]
            del self._deadlines[bisect_left(self._deadlines, deadline_ms)]

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline, or None if nothing is locked."""
        return self._deadlines[0] if self._deadlines else None

    def due_ranges(self, now_ms: int) -> list[tuple[int, int]]:
        """Return the ranges whose locks have expired, in offset order. A lock expires strictly after its deadline."""
        ranges: list[tuple[int, int]] = []
        for deadline in self._deadlines[: bisect_left(self._deadlines, now_ms)]:
            ranges.extend((first, last) for first, last, _ in self._by_deadline[deadline])
        ranges.sort()
        return ranges

    def held_ranges(self, member_id: str) -> list[tuple[int, int]]:
        """Return the ranges that `member_id` holds, in offset order."""
        held = self._by_member.get(member_id)
        return [(first, last) for first, last, _ in held] if held is not None else []

    def has_member(self, member_id: str) -> bool:
        """Return whether `member_id` holds a record."""
        return member_id in self._by_member

    def members(self) -> list[str]:
        """Return the members that hold records, sorted."""
        return sorted(self._by_member)
