"""The epochs of members that left their group. They are kept to reject late requests of the members' old sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

DEPARTED_MS = 600_000
MAX_DEPARTED = 1_000

_NEVER = (-1, 0)


class DepartedMembers:
    """The members that left their group, stored to reject late requests of their old sessions.

    An entry belongs to a share-partition and a member. It has the highest epoch with which the member left, and the
    time at which it left with this epoch. At most `MAX_DEPARTED` entries are stored, each for `DEPARTED_MS`. If there
    are too many, the oldest entry is removed.
    """

    def __init__(self, dumped: Mapping[str, Sequence[int]]) -> None:
        self._entries = {key: (entry[0], entry[1]) for key, entry in dumped.items()}

    def dump(self) -> dict[str, tuple[int, int]]:
        """Return the entries as JSON-able values for the constructor."""
        return dict(self._entries)

    def __bool__(self) -> bool:
        """Return whether there are entries."""
        return bool(self._entries)

    def has_left(self, partition: int, member_id: str, member_epoch: int) -> bool:
        """Return whether the member left with this epoch or a later one. False if `member_epoch` is -1 (unknown)."""
        return 0 <= member_epoch <= self._entries.get(_key(partition, member_id), _NEVER)[0]

    def add(self, partition: int, member_id: str, member_epoch: int, left_ms: int) -> None:
        """Record that the member left with this epoch, which must be higher than its earlier ones."""
        key = _key(partition, member_id)
        self._entries.pop(key, None)
        if len(self._entries) >= MAX_DEPARTED:
            self._entries.pop(next(iter(self._entries)))
        self._entries[key] = member_epoch, left_ms

    def evict_before(self, clock_ms: int) -> None:
        """Evict the members that left more than `DEPARTED_MS` before `clock_ms`."""
        self._entries = {key: entry for key, entry in self._entries.items() if entry[1] + DEPARTED_MS >= clock_ms}

    def deadlines_ms(self) -> Iterator[int]:
        """Return the times at which entries can be evicted."""
        return (left_ms + DEPARTED_MS for _, left_ms in self._entries.values())


def _key(partition: int, member_id: str) -> str:
    return f"{partition} {member_id}"
