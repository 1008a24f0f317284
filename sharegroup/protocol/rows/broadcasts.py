"""Broadcasts: rows of the response topic that all readers process.

They are JSON objects with the key `BROADCAST_KEY`. Each broadcast is written to every partition of the topic.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from sharegroup.protocol.json_text import from_json, to_json

#: The key and the `reply_to` of a broadcast. It is also the key of a request that is written to every partition.
BROADCAST_KEY = "*"


@dataclass(frozen=True, slots=True)
class NewLeaderBroadcast:
    """Broadcast that a job has become the leader and serves share-partitions.

    The job may have started without a checkpoint, and therefore without the waiting fetches of the previous job. A
    requester that waits for the response to a fetch must send the fetch again.
    """

    type: ClassVar[str] = "new_leader"


@dataclass(frozen=True, slots=True)
class MemberLeftBroadcast:
    """Broadcast that a member left its group or that its session expired.

    Gateways discard what they store about the member. The job releases the member's records, with one exception: if
    another gateway may still accept acknowledgements of the member, the records stay locked until their locks expire.
    """

    type: ClassVar[str] = "member_left"

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True)
class TopicDeletedBroadcast:
    """Broadcast that the topic with this id was deleted. A later topic with the same name has another id."""

    type: ClassVar[str] = "topic_deleted"

    group_id: str
    topic_id: str


Broadcast = NewLeaderBroadcast | MemberLeftBroadcast | TopicDeletedBroadcast


def to_row(broadcast: Broadcast) -> dict[str, Any]:
    content = {name: getattr(broadcast, name) for name in broadcast.__match_args__}
    return {"type": broadcast.type, "reply_to": BROADCAST_KEY} | content


def encode_broadcast(broadcast: Broadcast) -> bytes:
    return to_json(to_row(broadcast)).encode()


def decode_broadcast(value: bytes) -> Broadcast:
    """Decode a record value. Raises ValueError if it is not a broadcast."""
    try:
        row = from_json(value)
        kind = _KINDS[row["type"]]
        return kind(**{name: row[name] for name in kind.__match_args__})
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"the record is not a broadcast: {error!r}") from error


_KINDS: dict[str, type[Broadcast]] = {
    kind.type: kind for kind in (NewLeaderBroadcast, MemberLeftBroadcast, TopicDeletedBroadcast)
}
