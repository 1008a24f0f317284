"""For whom members' records were acquired last: through which gateway a member that does not ask for itself is served.

It matters when there are several. The end of a session that an earlier gateway kept may come late, when it finds the
connection dead, or is stopped: what the member holds through another gateway by then must stay its own. And a gateway
knows only of its own members that wait; of the others', the job tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

#: How often one share-partition's requesters are told that others wait.
TELL_INTERVAL_MS = 500


class Requesters:
    """By share-partition: members to the `reply_to` of their last fetch that got records, and when they were told."""

    def __init__(self, dumped: Mapping[str, Sequence[Any]]) -> None:
        self._members: dict[int, dict[str, str]] = {int(p): dict(entry[0]) for p, entry in dumped.items()}
        self._told_ms: dict[int, int] = {int(p): entry[1] for p, entry in dumped.items()}

    def dump(self) -> dict[str, tuple[dict[str, str], int]]:
        """JSON-able; the constructor reads it back."""
        return {str(p): (members, self._told_ms.get(p, 0)) for p, members in self._members.items() if members}

    def acquired(self, partition: int, member_id: str, reply_to: str) -> None:
        """A fetch of the member got records."""
        if reply_to != member_id:
            self._members.setdefault(partition, {})[member_id] = reply_to

    def has_another(self, partition: int, member_id: str, requester: str) -> bool:
        """Whether the member's last records are another's than this requester's ("": nobody in particular)."""
        last = self._members.get(partition, {}).get(member_id, requester)
        return bool(requester) and last != requester

    def to_tell(self, partition: int, waiting: Collection[str], holds: Callable[[str], bool], now_ms: int) -> list[str]:
        """Who else than those `waiting` has members that hold records, not oftener than each `TELL_INTERVAL_MS`."""
        members = self._members.get(partition, {})
        if now_ms < self._told_ms.get(partition, 0) + TELL_INTERVAL_MS:
            return []
        others = {reply_to for member, reply_to in members.items() if reply_to not in waiting and holds(member)}
        if others:
            self._told_ms[partition] = now_ms
        return sorted(others)

    def forget(self, partition: int, member_id: str) -> None:
        """The member holds nothing here any more."""
        self._members.get(partition, {}).pop(member_id, None)

    def drop(self, partition: int) -> None:
        """The share-partition is not here any more."""
        self._members.pop(partition, None)
        self._told_ms.pop(partition, None)
