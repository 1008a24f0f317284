"""Unread requests that a source has polled: their topics, and how long they may *linger* (wait for other requests).

A micro-batch for half a second of requests costs about as much as one for a single request. A request may therefore
linger if nobody waits for its effect:

- a request without `reply_to`, such as an acknowledgement from a gateway, or an acknowledgement with `linger_ms`, from
  a `ShareConsumer`. It lingers only if no pending fetch at its shard waits for the records or the space that it may
  free;
- a fetch with `linger_ms`, which is how long the requester still has enough records;
- an `assign` or `reassign` row (a gateway assigns records to a member). It always lingers, because it frees nothing,
  and the gateway sends the records without waiting for the job.

The next request that may not linger is processed together with all lingering requests.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sharegroup.errors import InvalidRequestRow
from sharegroup.job.knowledge.shard_keys import UNKEYED, ShardKey
from sharegroup.protocol.rows.probe import PROBE_TYPE
from sharegroup.protocol.rows.reservation_requests import ASSIGN, REASSIGN
from sharegroup.protocol.rows.row_fields import MAX_INT32, is_integer, json_object
from sharegroup.protocol.rows.share_partition_requests import ACKNOWLEDGE
from sharegroup.types import AcknowledgeType, WaitsFor

#: The maximum time for which any request lingers, in ms.
MAX_LINGER_MS = 5_000
_FINAL = {int(kind) for kind in (AcknowledgeType.GAP, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)}
NO_DEMANDS: Mapping[str, WaitsFor] = {}


class LingerRules(NamedTuple):
    """The settings that decide how long requests linger (wait for other requests before they are processed).

    `shards` is the number of operator keys for each topic of a group (`operator.shards`). `linger_ms` is how long a
    request lingers if nobody waits for its effect.
    """

    shards: int
    linger_ms: int


class UnreadRequests:
    """The requests that were polled from a request topic, but are not part of a micro-batch yet.

    `rules` decide how long a request may wait for others before a batch starts. Without `rules`, no request waits. Only
    the topic ids of the requests and the earliest time at which one must be processed are stored.
    """

    def __init__(self, rules: LingerRules | None) -> None:
        self._rules = rules
        self._topics: set[str] = set()
        #: When the earliest request must be processed, in ms of the clock that `add` received; None without requests.
        self.due_ms: int | None = None

    def add(self, values: Iterable[bytes], waiting: Mapping[str, WaitsFor], now_ms: int) -> None:
        """Add polled rows. `waiting` has, by shard key, what pending fetches wait for."""
        for value in values:
            row = _row(value)
            if isinstance(topic_id := row.get("topic_id"), str) and topic_id:
                self._topics.add(topic_id)
            due_ms = now_ms + self._linger_ms(row, waiting)
            self.due_ms = due_ms if self.due_ms is None else min(self.due_ms, due_ms)

    def is_due(self, now_ms: int) -> bool:
        """Return whether at least one request must be processed now. All other requests are processed with it."""
        return self.due_ms is not None and self.due_ms <= now_ms

    def pop_topics(self) -> set[str]:
        """Return the topic ids in the requests that were added since the last call."""
        topics, self._topics = self._topics, set()
        return topics

    def _linger_ms(self, row: Mapping[str, Any], waiting: Mapping[str, WaitsFor]) -> int:
        if self._rules is None:
            return 0
        own_ms = row.get("linger_ms")
        linger_ms = min(own_ms, MAX_LINGER_MS) if is_integer(own_ms, 0, MAX_INT32) else 0
        if row.get("type") == PROBE_TYPE:
            return 0
        if not row.get("reply_to"):
            linger_ms = self._rules.linger_ms
            if row.get("type") in (ASSIGN, REASSIGN):
                return linger_ms
        elif row.get("type") == ACKNOWLEDGE:
            linger_ms = min(linger_ms, self._rules.linger_ms)
        else:
            return linger_ms
        waits = waiting.get(_shard_key(row, self._rules.shards), WaitsFor.NOTHING)
        frees_something = waits is WaitsFor.ROOM or (waits is WaitsFor.RECORDS and not _finishes(row))
        return 0 if frees_something else linger_ms


def _finishes(row: Mapping[str, Any]) -> bool:
    """Return whether a row only finishes records (accept, reject or gap), so that none becomes available again."""
    try:
        types = {kind for _, _, kinds in row["batches"] for kind in kinds}
        return row["type"] == ACKNOWLEDGE and not row.get("is_renew_ack") and types <= _FINAL
    except (KeyError, TypeError, ValueError):
        return False


def _shard_key(row: Mapping[str, Any], shards: int) -> str:
    """Return the shard key of a row; `UNKEYED` if it names no share-partition."""
    group_id, topic_id, partition = row.get("group_id"), row.get("topic_id"), row.get("partition")
    if not (isinstance(group_id, str) and isinstance(topic_id, str) and is_integer(partition, 0, MAX_INT32)):
        return UNKEYED
    return ShardKey(group_id, topic_id, partition % shards).encode()


def _row(value: bytes) -> dict[str, Any]:
    """Return the fields of a row, or an empty dict if the row is not valid."""
    try:
        return json_object(value.decode(errors="replace"))
    except InvalidRequestRow:
        return {}
