"""Rows of the response topic: JSON objects, one response each, keyed by the request's `reply_to`.

A response may be sent twice (the job died between producing it and committing its batch, step 4); it then carries the
same `id`, and a reader drops what it has already seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sharegroup.errors import ErrorCode
from sharegroup.protocol.row_fields import said_back
from sharegroup.types import AcquiredRange

#: Key, and `reply_to`, of a row that is for everybody: a `Broadcast`.
EVERYBODY = "*"

#: Types of a `Broadcast`. A job has started to serve share-partitions: it may come from the tables alone, and then
#: knows nothing of the fetches that stood; whoever waits for one sends it again.
NEW_LEADER = "new_leader"
#: A member has left its group, or was timed out: what it holds goes to others.
MEMBER_LEFT = "member_left"
#: A topic is no more; one of its name has another id.
TOPIC_DELETED = "topic_deleted"

#: Type of a row that answers nothing: members of others wait for records while this requester's hold some.
WANTED = "wanted"


class Broadcast(NamedTuple):
    """A row for everybody, with what its type names: `member_id` and `member_epoch` of a group, or a `topic_id`."""

    type: str
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = -1
    topic_id: str = ""
    reply_to: str = EVERYBODY

    def encode(self) -> bytes:
        """The row's value."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


def decode_broadcast(value: bytes) -> Broadcast:
    """Read a row with the key EVERYBODY; raises ValueError on what is none."""
    try:
        row = json.loads(value)
        return Broadcast(**{name: row[name] for name in Broadcast._fields if name in row})
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"not a row for everybody: {error}") from error


class SharePartitionResponse(NamedTuple):
    """The answer to one request for a share-partition, or word that its records are `WANTED` (without an id).

    `acquired` are the ranges a fetch got, ascending and disjoint, or those that a renewal renewed: it passes over what
    is finished. `lock_deadline_ms` is when their locks end, in milliseconds since the epoch; -1 when no lock was taken.
    `read_committed` tells that the group reads committed records only: so are `acquired` to be read.
    `renewals_off` tells why a renewal was refused with INVALID_RECORD_STATE: the group allows none.
    """

    type: str
    id: str
    reply_to: str
    group_id: str
    topic: str
    topic_id: str
    partition: int
    member_id: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = None
    acquired: tuple[AcquiredRange, ...] = ()
    lock_deadline_ms: int = -1
    renewals_off: bool = False
    read_committed: bool = False


class PartitionError(NamedTuple):
    """What happened to one share-partition of alter_offsets; error code 0 where it was altered."""

    topic: str
    partition: int
    error_code: int
    error_message: str | None


class TopicError(NamedTuple):
    """What happened to one topic of delete_offsets; error code 0 where its offsets are deleted."""

    topic: str
    error_code: int
    error_message: str | None


class ShareGroupResponse(NamedTuple):
    """The answer to one request for a group.

    To a heartbeat: `assignment` is {topic: [topic_id, [partition, ...]]}, None when it did not change, and
    `subscribed_topic_names` the member's subscription as the group has it, sorted, which tells a gateway that took a
    member over. `session_deadline_ms` is until when it stays a member whatever happens to its next heartbeats, in
    milliseconds since the epoch (-1: not told). `partition_errors` has an entry for each share-partition that
    alter_offsets named, `topic_errors` one for each topic of delete_offsets, unless the whole request was refused.
    """

    type: str
    id: str
    reply_to: str
    group_id: str
    member_id: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = None
    member_epoch: int = -1
    heartbeat_interval_ms: int = 0
    assignment: dict[str, Any] | None = None
    subscribed_topic_names: tuple[str, ...] | None = None
    partition_errors: tuple[PartitionError, ...] = ()
    topic_errors: tuple[TopicError, ...] = ()
    session_deadline_ms: int = -1


_SELDOM = ("partition_errors", "topic_errors", "renewals_off", "read_committed")
Response = SharePartitionResponse | ShareGroupResponse


def encode_response(response: Response) -> dict[str, Any]:
    """The JSON object of a response row; what is seldom set is left out otherwise."""
    return {name: value for name, value in response._asdict().items() if value or name not in _SELDOM}


def without_content(row: Mapping[str, Any], code: ErrorCode, message: str) -> dict[str, Any]:
    """The response row with an error in place of all that it says: short, whatever the request was."""
    kind: type[Response] = SharePartitionResponse if "topic" in row else ShareGroupResponse
    named: dict[str, Any] = {field: row[field] for field in kind._fields if field not in kind._field_defaults}
    named |= {field: said_back(row, field) for field, value in named.items() if isinstance(value, str)}
    return encode_response(kind(**named, error_code=int(code), error_message=message))


def _share_group_response(row: dict[str, Any]) -> ShareGroupResponse:
    if row.get("subscribed_topic_names") is not None:
        row["subscribed_topic_names"] = tuple(row["subscribed_topic_names"])
    row["partition_errors"] = tuple(PartitionError(*item) for item in row.get("partition_errors", ()))
    row["topic_errors"] = tuple(TopicError(*item) for item in row.get("topic_errors", ()))
    return ShareGroupResponse(**row)


def decode_response(value: bytes) -> Response:
    """Read a row of the response topic, also of an earlier version; raises ValueError on what is none."""
    try:
        row = json.loads(value)
        if not isinstance(row, dict):
            raise TypeError("not a JSON object")
        if "topic" not in row:
            return _share_group_response(row)
        row["acquired"] = tuple(AcquiredRange(*item) for item in row["acquired"])
        return SharePartitionResponse(**row)
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a response row: {error}") from error
