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
    """By share-partition: members to the `reply_to` of their last fetch that got records, with the time of its append,
    and when the requesters were told."""

    def __init__(self, dumped: Mapping[str, Sequence[Any]]) -> None:
        self._members: dict[int, dict[str, tuple[str, int]]] = {
            int(p): {member: (reply_to, append_ms) for member, (reply_to, append_ms) in entry[0].items()}
            for p, entry in dumped.items()
        }
        self._told_ms: dict[int, int] = {int(p): entry[1] for p, entry in dumped.items()}

    def dump(self) -> dict[str, tuple[dict[str, tuple[str, int]], int]]:
        """JSON-able; the constructor reads it back."""
        return {str(p): (members, self._told_ms.get(p, 0)) for p, members in self._members.items() if members}

    def acquired(self, partition: int, member_id: str, reply_to: str, append_ms: int) -> None:
        """A fetch of the member, appended at `append_ms`, got records."""
        if reply_to != member_id:
            self._members.setdefault(partition, {})[member_id] = reply_to, append_ms

    def has_another(self, partition: int, member_id: str, requester: str) -> bool:
        """Whether the member's last records are another's than this requester's ("": nobody in particular)."""
        last, _ = self._members.get(partition, {}).get(member_id, (requester, 0))
        return bool(requester) and last != requester

    def has_asked_since(self, partition: int, member_id: str, opened_ms: int) -> bool:
        """Whether the member's last records are for a fetch after this time: a session that was opened then is old."""
        _, append_ms = self._members.get(partition, {}).get(member_id, ("", -1))
        return 0 <= opened_ms < append_ms

    def to_tell(self, partition: int, waiting: Collection[str], holds: Callable[[str], bool], now_ms: int) -> list[str]:
        """Who else than those `waiting` has members that hold records, not oftener than each `TELL_INTERVAL_MS`."""
        members = self._members.get(partition, {})
        if now_ms < self._told_ms.get(partition, 0) + TELL_INTERVAL_MS:
            return []
        others = {reply_to for member, (reply_to, _) in members.items() if reply_to not in waiting and holds(member)}
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
