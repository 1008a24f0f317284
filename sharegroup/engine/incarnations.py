"""Which process is each member now: what another one sends, whose place it has taken, is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_REMEMBERED = 1_000


class Incarnations:
    """(share-partition, member) to the process that joined as it last, and when; of members whose process was another
    before. Bounded, the oldest entry goes first: its member's older process is then fenced by its heartbeats alone."""

    def __init__(self, dumped: Mapping[str, Sequence[Any]]) -> None:
        self._entries: dict[str, tuple[str, int]] = {key: (entry[0], entry[1]) for key, entry in dumped.items()}

    def dump(self) -> dict[str, tuple[str, int]]:
        """JSON-able; the constructor reads it back."""
        return dict(self._entries)

    def joined(self, partition: int, member_id: str, incarnation_id: str, joined_ms: int) -> bool:
        """The process joined as the member at this time; False if a later one is known."""
        key = _key(partition, member_id)
        if key in self._entries and joined_ms < self._entries[key][1]:
            return False
        self._entries.pop(key, None)
        if len(self._entries) >= MAX_REMEMBERED:
            self._entries.pop(next(iter(self._entries)))
        self._entries[key] = incarnation_id, joined_ms
        return True

    def is_fenced(self, partition: int, member_id: str, incarnation_id: str | None) -> bool:
        """Whether another process is the member by now; never for one that does not say which it is."""
        known = self._entries.get(_key(partition, member_id))
        return known is not None and incarnation_id not in (None, known[0])

    def forget(self, partition: int, member_id: str) -> None:
        """The member has left its group."""
        self._entries.pop(_key(partition, member_id), None)


def _key(partition: int, member_id: str) -> str:
    return f"{partition} {member_id}"
