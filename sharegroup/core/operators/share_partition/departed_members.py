"""Members that left: their epochs are remembered for a while, to refuse what their old sessions still send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

DEPARTED_MS = 600_000
MAX_DEPARTED = 1_000

_NEVER = (-1, 0)


class DepartedMembers:
    """(share-partition, member) to the highest epoch that has left and when; bounded, the oldest entry goes first."""

    def __init__(self, dumped: Mapping[str, Sequence[int]]) -> None:
        self._entries = {key: (entry[0], entry[1]) for key, entry in dumped.items()}

    def dump(self) -> dict[str, tuple[int, int]]:
        """JSON-able; the constructor reads it back."""
        return dict(self._entries)

    def __bool__(self) -> bool:
        """Whether anybody is remembered."""
        return bool(self._entries)

    def has_left(self, partition: int, member_id: str, member_epoch: int) -> bool:
        """Whether the member left with this epoch or a later one; never for epoch -1, which is not known."""
        return 0 <= member_epoch <= self._entries.get(_key(partition, member_id), _NEVER)[0]

    def add(self, partition: int, member_id: str, member_epoch: int, left_ms: int) -> None:
        """The member left with this epoch, higher than any before."""
        key = _key(partition, member_id)
        self._entries.pop(key, None)
        if len(self._entries) >= MAX_DEPARTED:
            self._entries.pop(next(iter(self._entries)))
        self._entries[key] = member_epoch, left_ms

    def forget(self, clock_ms: int) -> None:
        """Forget those who left long before `clock_ms`."""
        self._entries = {key: entry for key, entry in self._entries.items() if entry[1] + DEPARTED_MS >= clock_ms}

    def deadlines_ms(self) -> Iterator[int]:
        """When there is something to forget."""
        return (left_ms + DEPARTED_MS for _, left_ms in self._entries.values())


def _key(partition: int, member_id: str) -> str:
    return f"{partition} {member_id}"
