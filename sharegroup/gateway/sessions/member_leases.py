"""The leases of members, that is, the times until which they are certainly in their groups. No clock, no I/O.

Each heartbeat response of the job contains the time until which the member stays in its group even if it sends no
further heartbeat. After a member has left or timed out, other members receive its records. The gateway may therefore
answer an acknowledgement before the job has processed it only while the lease is valid.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from sharegroup.protocol.short_names import shorten_name

#: Most members in memory. Acknowledgements of an evicted member are answered only after the job has processed them.
MAX_KEPT = 100_000


class Lease:
    """The time until which a member is certainly in its group. After `end` was called, it is never valid again."""

    __slots__ = ("_deadline_ms", "_is_over", "member_epoch")

    def __init__(self) -> None:
        self._deadline_ms = -1
        self._is_over = False
        #: The member's epoch in the newest response of the job; -1 before the first one.
        self.member_epoch = -1

    @property
    def deadline_ms(self) -> int:
        """When the lease ends, in ms since the epoch; -1 before the first call of `extend` and after `end`."""
        return -1 if self._is_over else self._deadline_ms

    def extend(self, deadline_ms: int, member_epoch: int = -1) -> None:
        """Set the end of the lease, in ms since the epoch. The newest value from the job replaces the previous one."""
        self._deadline_ms, self.member_epoch = deadline_ms, member_epoch

    def end(self) -> None:
        """End the lease, because the member has left or timed out."""
        self._is_over = True

    def is_valid_at(self, until_ms: int) -> bool:
        """Return whether the member is certainly in its group at the time `until_ms`."""
        return not self._is_over and until_ms < self._deadline_ms


class MemberLeases:
    """The leases of members that recently sent heartbeats through this gateway, by group and member id."""

    def __init__(self) -> None:
        self._leases: OrderedDict[tuple[str, str], Lease] = OrderedDict()
        #: Called with the group id when a lease has been ended.
        self.on_end: Callable[[str], None] = lambda _: None

    def get(self, group_id: str, member_id: str) -> Lease:
        """Return the lease of a member. If none is stored, return an invalid lease, which is not stored."""
        return self._leases.get(_key(group_id, member_id)) or Lease()

    def get_or_create(self, group_id: str, member_id: str) -> Lease:
        """Return the lease of a member. If none is stored, create one.

        Must be called before a heartbeat is sent. The response to the heartbeat extends the returned lease. If the
        member leaves its group before the response arrives, the lease ends, and the response does not make it valid.
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
