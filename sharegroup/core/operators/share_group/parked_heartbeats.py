"""Heartbeats of members that wait for their share-partitions or for the assignor, to be answered with the assignment.

An answer without one would cost the member two more micro-batches: its next heartbeat, and that one's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, decode_share_group_request

#: How long a heartbeat waits; a client has far more patience, and hears something when initializing takes longer.
PARKED_MS = 2_000


class _ParkedHeartbeat(NamedTuple):
    value: str
    until_ms: int


class ParkedHeartbeats:
    """At most one of each member, its newest; `dumped` is what `dump` returned."""

    def __init__(self, dumped: Mapping[str, tuple[str, int]]) -> None:
        self._parked = {member_id: _ParkedHeartbeat(*parked) for member_id, parked in dumped.items()}

    def dump(self) -> dict[str, _ParkedHeartbeat]:
        """What is parked, JSON-able; the constructor reads it back."""
        return self._parked

    def park(self, member_id: str, value: str, append_ms: int) -> None:
        """Let the member's heartbeat wait; `value` is its row."""
        self._parked[member_id] = _ParkedHeartbeat(value, append_ms + PARKED_MS)

    def drop(self, member_id: str) -> None:
        """The member has sent another request, so nobody waits for this one's answer any more."""
        self._parked.pop(member_id, None)

    def take(self, member_id: str) -> str | None:
        """Remove the member's parked heartbeat and return its row; None if it has none."""
        parked = self._parked.pop(member_id, None)
        return None if parked is None else parked.value

    def take_ready(self, now_ms: int, waits: Callable[[str], bool]) -> list[HeartbeatRequest]:
        """Hand out those that have waited long enough, or whose member does not wait (`waits`) any more."""
        ready = [
            member_id for member_id, parked in self._parked.items() if parked.until_ms <= now_ms or not waits(member_id)
        ]
        requests = (decode_share_group_request(self._parked.pop(member_id).value) for member_id in ready)
        return [request for request in requests if isinstance(request, HeartbeatRequest)]

    def next_deadline_ms(self) -> int | None:
        """When the first has waited long enough; None when there is none."""
        return min((parked.until_ms for parked in self._parked.values()), default=None)
