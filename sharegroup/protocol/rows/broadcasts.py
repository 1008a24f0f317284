"""Rows of the response topic that are for everybody: JSON objects with the key `EVERYBODY`, in each partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sharegroup.protocol.json_text import from_json, to_json

#: Key, and `reply_to`, of such a row.
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class NewLeaderBroadcast:
    """A job has started to serve share-partitions.

    It may come from the tables alone, and then knows nothing of the fetches that stood; whoever waits for one sends it
    again.
    """

    type: ClassVar[str] = "new_leader"


@dataclass(frozen=True, slots=True)
class MemberLeftBroadcast:
    """A member has left its group, or was timed out: what it holds goes to others."""

    type: ClassVar[str] = "member_left"

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True)
class TopicDeletedBroadcast:
    """A topic is no more; one of its name has another id."""

    type: ClassVar[str] = "topic_deleted"

    group_id: str
    topic_id: str


Broadcast = NewLeaderBroadcast | MemberLeftBroadcast | TopicDeletedBroadcast


def broadcast_row(broadcast: Broadcast) -> dict[str, Any]:
    """The JSON object of a row."""
    content = {name: getattr(broadcast, name) for name in broadcast.__match_args__}
    return {"type": broadcast.type, "reply_to": EVERYBODY} | content


def encode_broadcast(broadcast: Broadcast) -> bytes:
    """The value of a row."""
    return to_json(broadcast_row(broadcast)).encode()


def decode_broadcast(value: bytes) -> Broadcast:
    """Read a row; raises ValueError on what is none."""
    try:
        row = from_json(value)
        kind = _KINDS[row["type"]]
        return kind(**{name: row[name] for name in kind.__match_args__})
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"not a row for everybody: {error!r}") from error


_KINDS: dict[str, type[Broadcast]] = {
    kind.type: kind for kind in (NewLeaderBroadcast, MemberLeftBroadcast, TopicDeletedBroadcast)
}
