"""Incarnations: for each member, its current process. Requests of the member's earlier processes are rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MAX_INCARNATIONS = 1_000


class _Entry(NamedTuple):
    """The newest process of one member, and the time of its join.

    A `fence_member` row reports a join. The row is appended to every partition of the request topic, and may be read
    from some partitions later than from others. `read` maps each of these partitions to the latest join that was read
    from it, as (incarnation id, join time).
    """

    incarnation_id: str
    joined_ms: int
    read: dict[int, tuple[str, int]]


class Incarnations:
    """The newest process of each member whose process was replaced. Requests of its earlier processes are rejected.

    The key of an entry is a share-partition of the shard and a member. The value is the newest process and the time of
    its join. An entry that is loaded from the tables has `partition` None, and applies to all share-partitions of the
    shard.

    At most `MAX_INCARNATIONS` entries are stored, and the oldest entry is evicted first. After an eviction, requests of
    the earlier process are no longer rejected here, but the group coordinator still rejects its heartbeats.
    """

    def __init__(self, dumped: Mapping[str, Sequence[Any]]) -> None:
        self._entries = {
            key: _Entry(entry[0], entry[1], {int(p): (read[0], read[1]) for p, read in dict(*entry[2:]).items()})
            for key, entry in dumped.items()
        }

    def dump(self) -> Mapping[str, tuple[str, int, Mapping[int, tuple[str, int]]]]:
        """Return the entries as JSON-able values for the constructor."""
        return dict(self._entries)

    def add(
        self,
        partition: int | None,
        member_id: str,
        incarnation_id: str,
        joined_ms: int,
        request_partition: int | None = None,
    ) -> bool:
        """Record that a process joined as the member at `joined_ms`, and return whether it is now the current process.

        If a later join is already known, the process is not the current one. `request_partition` is the partition of
        the request topic from which the `fence_member` row was read, or None for an entry that is loaded from the
        tables.
        """
        key, process = _key(partition, member_id), (incarnation_id, joined_ms)
        entry = self._entries.get(key)
        read = {} if entry is None else entry.read
        if request_partition is not None and joined_ms >= read.get(request_partition, process)[1]:
            read[request_partition] = process
        known = (entry, self._entries.get(_key(None, member_id)))
        if any(joined_ms < other.joined_ms for other in known if other is not None):
            return False
        self._entries.pop(key, None)
        if len(self._entries) >= MAX_INCARNATIONS:
            self._entries.pop(next(iter(self._entries)))
        self._entries[key] = _Entry(*process, read)
        return True

    def is_fenced(
        self, partition: int, member_id: str, incarnation_id: str | None, append_ms: int, request_partition: int
    ) -> bool:
        """Return whether another process was the member when the request was appended.

        The result is False for a request without an incarnation id. If the `fence_member` row of a join was read from
        `request_partition`, where the request is too, the join fences all later requests there, whatever their time. A
        join that is known only from another partition of the request topic, or from the tables, fences only requests
        that were appended at or after the join.
        """
        entry, loaded = self._entries.get(_key(partition, member_id)), self._entries.get(_key(None, member_id))
        known = None if entry is None else entry.read.get(request_partition)
        for other in (entry, loaded):
            if other is not None and (known is None or known[1] < other.joined_ms):
                is_after = append_ms >= other.joined_ms or incarnation_id == other.incarnation_id
                known = (other.incarnation_id, other.joined_ms) if is_after else known
        return known is not None and incarnation_id not in (None, known[0])

    def remove(self, partition: int, member_id: str) -> None:
        """Remove a member that has left its group."""
        self._entries.pop(_key(partition, member_id), None)
        self._entries.pop(_key(None, member_id), None)


def _key(partition: int | None, member_id: str) -> str:
    return f"{'' if partition is None else partition} {member_id}"
