"""Until when members are known to be in their groups: what early answers to acknowledgements rest on. No clock, no I/O.

The job tells with each answer to a heartbeat until when the member stays one, whatever happens to its next heartbeats.
When it has left, or was timed out, its records go to others, and nobody may say that its acknowledgements count.
"""

from __future__ import annotations

from collections import OrderedDict

from sharegroup.gateway.wire.short_names import short

#: Members that are remembered; acknowledgements of one that was forgotten are the job's to answer.
MAX_REMEMBERED = 100_000


class Lease:
    """A member's time in its group, from its join to its end. Once it is over it stays so: a new join has another."""

    __slots__ = ("_deadline_ms", "_is_over")

    def __init__(self) -> None:
        self._deadline_ms = -1
        self._is_over = False

    def extend(self, deadline_ms: int) -> None:
        """The job has said that the member stays until then (milliseconds since the epoch); the newest word counts."""
        self._deadline_ms = deadline_ms

    def end(self) -> None:
        """The member has left, or was timed out."""
        self._is_over = True

    def lasts(self, until_ms: int) -> bool:
        """Whether the member is certainly in its group at that time."""
        return not self._is_over and until_ms < self._deadline_ms


class MemberLeases:
    """The leases of all members that this gateway has heard of lately, by group and member."""

    def __init__(self) -> None:
        self._leases: OrderedDict[tuple[str, str], Lease] = OrderedDict()

    def of(self, group_id: str, member_id: str) -> Lease:
        """The member's lease, which may come to its end later; one that does not last if none is known."""
        return self._leases.get(_key(group_id, member_id)) or Lease()

    def begin(self, group_id: str, member_id: str) -> Lease:
        """The lease that the answer to a heartbeat extends; to be taken before the heartbeat is sent.

        What the member's end was overtaken by cannot bring it back: that answer extends a lease that is over.
        """
        key = _key(group_id, member_id)
        lease = self._leases.setdefault(key, Lease())
        self._leases.move_to_end(key)
        if len(self._leases) > MAX_REMEMBERED:
            self._leases.popitem(last=False)[1].end()
        return lease

    def end(self, group_id: str, member_id: str) -> None:
        """The member leaves, or has left."""
        lease = self._leases.pop(_key(group_id, member_id), None)
        if lease is not None:
            lease.end()


def _key(group_id: str, member_id: str) -> tuple[str, str]:
    return short(group_id), short(member_id)
