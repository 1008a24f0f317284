"""Heartbeats whose responses are delayed until share-partitions are initialized or the assignor has run.

The delayed response contains the assignment. After an immediate response, the member would get its assignment only with
another heartbeat, two micro-batches later.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest, decode_share_group_request

#: Maximum time in ms for which a response is delayed. Clients wait far longer for a response, but a slow initialization
#: should not delay all responses.
PENDING_MS = 2_000


class _ParkedHeartbeat(NamedTuple):
    value: str
    until_ms: int


class PendingHeartbeats:
    """The heartbeats that have no response yet: the newest one of each member.

    `dumped` is the result of an earlier `dump`.
    """

    def __init__(self, dumped: Mapping[str, tuple[str, int]]) -> None:
        self._parked = {member_id: _ParkedHeartbeat(*parked) for member_id, parked in dumped.items()}

    def dump(self) -> dict[str, _ParkedHeartbeat]:
        """Return the pending heartbeats as JSON-able values for the constructor."""
        return self._parked

    def add(self, member_id: str, value: str, append_ms: int) -> None:
        self._parked[member_id] = _ParkedHeartbeat(value, append_ms + PENDING_MS)

    def discard(self, member_id: str) -> None:
        """Discard the member's heartbeat without a response, because the member has sent another one."""
        self._parked.pop(member_id, None)

    def pop(self, member_id: str) -> str | None:
        """Remove the member's heartbeat and return its request row as text, or None if there is none."""
        parked = self._parked.pop(member_id, None)
        return None if parked is None else parked.value

    def pop_ready(self, now_ms: int, waits: Callable[[str], bool]) -> list[HeartbeatRequest]:
        """Remove and return the heartbeats that must get their responses now.

        These are the heartbeats that were appended `PENDING_MS` ago or earlier, and those of members for which `waits`
        returns False. `waits` returns whether the member with a given id must wait longer for its assignment.
        """
        ready = [
            member_id for member_id, parked in self._parked.items() if parked.until_ms <= now_ms or not waits(member_id)
        ]
        requests = (decode_share_group_request(self._parked.pop(member_id).value) for member_id in ready)
        return [request for request in requests if isinstance(request, HeartbeatRequest)]

    def next_deadline_ms(self) -> int | None:
        """Return the earliest time at which a pending heartbeat must get its response, or None if none is pending."""
        return min((parked.until_ms for parked in self._parked.values()), default=None)
