"""Rows of the response topic: JSON objects, one response each, keyed by the request's `reply_to`.

A response may be sent twice (the job died between producing it and committing its batch, step 4); it then carries the
same `id`, and a reader drops what it has already seen.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from sharegroup.errors import ErrorCode
from sharegroup.types import AcquiredRange


class SharePartitionResponse(NamedTuple):
    """The answer to one request for a share-partition.

    `acquired` are the ranges a fetch got, ascending and disjoint; `lock_deadline_ms` is when their locks (or, after a
    renewal, the renewed ones) end, in milliseconds since the epoch; -1 when no lock was taken.
    """

    type: str
    id: str
    reply_to: str
    group_id: str
    topic: str
    partition: int
    member_id: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = None
    acquired: tuple[AcquiredRange, ...] = ()
    lock_deadline_ms: int = -1


class ShareGroupResponse(NamedTuple):
    """The answer to one heartbeat.

    `assignment` is {topic: [topic_id, [partition, ...]]}, None when it did not change.
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


Response = SharePartitionResponse | ShareGroupResponse


def encode_response(response: Response) -> dict[str, Any]:
    """The JSON object of a response row."""
    return response._asdict()


def decode_response(value: bytes) -> Response:
    """Read a row of the response topic; raises ValueError on what no version of this project wrote."""
    try:
        row = json.loads(value)
        if "topic" not in row:
            return ShareGroupResponse(**row)
        row["acquired"] = tuple(AcquiredRange(*item) for item in row["acquired"])
        return SharePartitionResponse(**row)
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a response row: {error}") from error
