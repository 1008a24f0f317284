"""For whom a member's records were acquired last: one that went to another gateway is not the old one's any more."""

from __future__ import annotations

from collections.abc import Mapping


class Requesters:
    """Share-partition and member to the `reply_to` of the last fetch that got records, while it is not the member's id.

    The end of a session that an earlier gateway kept may come late, when it finds the connection dead, or is stopped:
    what the member holds through another gateway by then must stay its own.
    """

    def __init__(self, dumped: Mapping[str, Mapping[str, str]]) -> None:
        self._requesters = {int(p): dict(members) for p, members in dumped.items()}

    def dump(self) -> dict[str, dict[str, str]]:
        """JSON-able; the constructor reads it back."""
        return {str(partition): members for partition, members in self._requesters.items() if members}

    def acquired(self, partition: int, member_id: str, reply_to: str) -> None:
        """A fetch of the member got records."""
        if reply_to != member_id:
            self._requesters.setdefault(partition, {})[member_id] = reply_to

    def has_another(self, partition: int, member_id: str, requester: str) -> bool:
        """Whether the member's last records are another's than this requester's ("": nobody in particular)."""
        last = self._requesters.get(partition, {}).get(member_id, requester)
        return bool(requester) and last != requester

    def forget(self, partition: int, member_id: str) -> None:
        """The member holds nothing here any more."""
        self._requesters.get(partition, {}).pop(member_id, None)

    def drop(self, partition: int) -> None:
        """The share-partition is not here any more."""
        self._requesters.pop(partition, None)
