"""The times until which members are known to be in their groups. Early answers depend on them. No clock, no I/O.

Each heartbeat response of the job contains the time until which the member stays in its group, whatever happens to its
next heartbeats. After a member has left or timed out, its records go to others, so its acknowledgements must not be
confirmed early.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from sharegroup.protocol.short_names import shorten_name

#: Members kept in memory. Acknowledgements of an evicted member are answered by the job.
MAX_KEPT = 100_000


class Lease:
    """The time of a member in its group. An ended lease stays ended; a new join gets a new lease."""

    __slots__ = ("_deadline_ms", "_is_over")

    def __init__(self) -> None:
        self._deadline_ms = -1
        self._is_over = False

    @property
    def deadline_ms(self) -> int:
        """The time until which the member is certainly in its group; -1 if it is not known or has ended."""
        return -1 if self._is_over else self._deadline_ms

    def extend(self, deadline_ms: int) -> None:
        """Set the end of the membership (milliseconds since the epoch); the newest value from the job counts."""
        self._deadline_ms = deadline_ms

    def end(self) -> None:
        """End the lease, because the member has left or timed out."""
        self._is_over = True

    def is_valid_at(self, until_ms: int) -> bool:
        """Return whether the member is certainly in its group at that time."""
        return not self._is_over and until_ms < self._deadline_ms


class MemberLeases:
    """The leases of the members that recently sent heartbeats through this gateway, by group and member."""

    def __init__(self) -> None:
        self._leases: OrderedDict[tuple[str, str], Lease] = OrderedDict()
        #: Called with the group of each lease that has been ended.
        self.on_end: Callable[[str], None] = lambda _: None

    def get(self, group_id: str, member_id: str) -> Lease:
        """Return the lease of the member, or an expired one if none is known."""
        return self._leases.get(_key(group_id, member_id)) or Lease()

    def get_or_create(self, group_id: str, member_id: str) -> Lease:
        """Return the lease that a heartbeat response will extend. Call it before the heartbeat is sent.

        If the member's end overtakes the response, the response extends a lease that has already ended and has no
        effect.
        """
        key = _key(group_id, member_id)
        lease = self._leases.setdefault(key, Lease())
        self._leases.move_to_end(key)
        if len(self._leases) > MAX_KEPT:
            self._leases.popitem(last=False)[1].end()
        return lease

    def end(self, group_id: str, member_id: str) -> None:
        lease = self._leases.pop(_key(group_id, member_id), None)
        if lease is not None:
            lease.end()
            self.on_end(group_id)


def _key(group_id: str, member_id: str) -> tuple[str, str]:
    return shorten_name(group_id), shorten_name(member_id)
