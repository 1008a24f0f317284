"""Unread requests, as far as a source has looked at them: their topics, and how long they may *linger*.

One micro-batch for half a second of requests costs what it costs for one of them. So a request lingers that nobody
waits for (no `reply_to`: a gateway's acknowledgements) at a shard where no member waits for records either, and a fetch
whose requester has records until then (`linger_ms`). Whatever somebody waits for takes them along.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sharegroup.errors import InvalidRequestRow
from sharegroup.protocol.row_fields import MAX_INT32, is_integer, json_object
from sharegroup.watch.shard_keys import ShardKey

#: How long a request lingers that nobody waits for, and any at the most.
LINGER_MS, MOST_MS = 500, 5_000


class UnreadRequests:
    """Those behind some positions of a request topic. `shards` is how many operator keys a group's topic has; None of a
    topic whose requests never linger."""

    def __init__(self, shards: int | None) -> None:
        self._shards = shards
        self._topics: set[str] = set()
        #: When they are to be brought, in ms; None: there are none.
        self.due_ms: int | None = None

    def add(self, values: Iterable[bytes], waiting: Collection[str], now_ms: int) -> None:
        """Rows that were found; `waiting` are the shard keys at which demands stand."""
        for value in values:
            row = _row(value)
            if isinstance(topic_id := row.get("topic_id"), str) and topic_id:
                self._topics.add(topic_id)
            due_ms = now_ms + self._linger_ms(row, waiting)
            self.due_ms = due_ms if self.due_ms is None else min(self.due_ms, due_ms)

    def are_due(self, now_ms: int) -> bool:
        """Whether one of them is to be brought now, and all with it."""
        return self.due_ms is not None and self.due_ms <= now_ms

    def take_topics(self) -> set[str]:
        """The ids of the topics that they are about, each told once."""
        topics, self._topics = self._topics, set()
        return topics

    def _linger_ms(self, row: Mapping[str, Any], waiting: Collection[str]) -> int:
        if self._shards is None:
            return 0
        if row.get("reply_to"):
            linger_ms = row.get("linger_ms")
            return min(linger_ms, MOST_MS) if is_integer(linger_ms, 0, MAX_INT32) else 0
        return 0 if waiting and _shard_key(row, self._shards) in waiting else LINGER_MS


def _shard_key(row: Mapping[str, Any], shards: int) -> str | None:
    """None if the row names no share-partition."""
    group_id, topic_id, partition = row.get("group_id"), row.get("topic_id"), row.get("partition")
    if not (isinstance(group_id, str) and isinstance(topic_id, str) and is_integer(partition, 0, MAX_INT32)):
        return None
    return ShardKey(group_id, topic_id, partition % shards).encode()


def _row(value: bytes) -> dict[str, Any]:
    """Its fields; none of what is no row at all."""
    try:
        return json_object(value.decode(errors="replace"))
    except InvalidRequestRow:
        return {}
