"""The current process of each member. Requests of the processes that it replaced are rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_INCARNATIONS = 1_000


class Incarnations:
    """(share-partition, member) to the process that joined as the member last, and when it joined.

    Only members that had another process before have an entry. Entries that are loaded from the tables apply to all
    share-partitions of the shard (partition None). Bounded: the oldest entry is evicted first. The older process of its
    member is then fenced only by its heartbeats.
    """

    def __init__(self, dumped: Mapping[str, Sequence[Any]]) -> None:
        self._entries: dict[str, tuple[str, int]] = {key: (entry[0], entry[1]) for key, entry in dumped.items()}

    def dump(self) -> dict[str, tuple[str, int]]:
        """Return the entries for JSON; the constructor reads them."""
        return dict(self._entries)

    def add(self, partition: int | None, member_id: str, incarnation_id: str, joined_ms: int) -> bool:
        """Record that the process joined as the member at this time; return False if a later join is known."""
        key = _key(partition, member_id)
        known = (self._entries.get(key), self._entries.get(_key(None, member_id)))
        if any(joined_ms < entry[1] for entry in known if entry is not None):
            return False
        self._entries.pop(key, None)
        if len(self._entries) >= MAX_INCARNATIONS:
            self._entries.pop(next(iter(self._entries)))
        self._entries[key] = incarnation_id, joined_ms
        return True

    def is_fenced(self, partition: int, member_id: str, incarnation_id: str | None, append_ms: int) -> bool:
        """Return whether another process was the member when the request was appended; False without an incarnation id.

        In a share-partition, the `fence_member` row precedes the requests that it fences. A loaded entry has no
        position among the requests, so it fences those that were appended at or after the join.
        """
        known, loaded = self._entries.get(_key(partition, member_id)), self._entries.get(_key(None, member_id))
        if loaded is not None and (known is None or known[1] < loaded[1]):
            is_after = append_ms >= loaded[1] or incarnation_id == loaded[0]
            known = loaded if is_after else known
        return known is not None and incarnation_id not in (None, known[0])

    def remove(self, partition: int, member_id: str) -> None:
        """Remove a member that has left its group."""
        self._entries.pop(_key(partition, member_id), None)
        self._entries.pop(_key(None, member_id), None)


def _key(partition: int | None, member_id: str) -> str:
    return f"{'' if partition is None else partition} {member_id}"
