"""Rows of the response topic: JSON objects, one response each, keyed by the request's `reply_to` (`response_records`
says how many in a record).

A response may be sent twice (the job died between producing it and committing its batch, step 4); it then carries the
same `id`, and a reader drops what it has already seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from sharegroup.errors import ErrorCode
from sharegroup.protocol.response_records import rows_of
from sharegroup.protocol.rows.row_fields import MAX_INT32, is_integer, said_back
from sharegroup.protocol.rows.share_group_requests import MemberIdentity
from sharegroup.protocol.rows.share_group_responses import (
    AlterConfigsResponse,
    AlterOffsetsResponse,
    DeleteGroupResponse,
    DeleteOffsetsResponse,
    HeartbeatResponse,
    InvokeConsumerRebalanceResponse,
    MemberError,
    PartitionError,
    RemoveMembersResponse,
    ShareGroupRefusal,
    ShareGroupResponse,
    TopicError,
)
from sharegroup.protocol.rows.share_partition_responses import (
    AcknowledgeResponse,
    FetchResponse,
    ReleaseMemberResponse,
    SharePartitionRefusal,
    SharePartitionResponse,
    UnacquireResponse,
    WantedNotice,
)
from sharegroup.protocol.rows.typed_rows import field_names, row_values
from sharegroup.types import AcquiredRange

Response = SharePartitionResponse | ShareGroupResponse


def _by_type(kinds: Iterable[type[Any]]) -> dict[str, type[Any]]:
    return {kind.type: kind for kind in kinds}


_OF_SHARE_PARTITION = _by_type(
    (FetchResponse, AcknowledgeResponse, UnacquireResponse, ReleaseMemberResponse, WantedNotice)
)
_OF_GROUP = _by_type(
    (
        HeartbeatResponse,
        AlterOffsetsResponse,
        DeleteOffsetsResponse,
        DeleteGroupResponse,
        AlterConfigsResponse,
        InvokeConsumerRebalanceResponse,
        RemoveMembersResponse,
    )
)
_KINDS = (*_OF_SHARE_PARTITION.values(), SharePartitionRefusal, *_OF_GROUP.values(), ShareGroupRefusal)
_NEEDED: dict[type[Any], tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if field.default is MISSING) for kind in _KINDS
}
#: What is left out of a row where it says nothing.
_SELDOM = (
    "partition_errors",
    "topic_errors",
    "member_errors",
    "removed",
    "renewals_off",
    "read_committed",
    "delivery_count_limit",
)
#: What is a list of lists in JSON.
_NESTED = {
    "acquired": AcquiredRange,
    "partition_errors": PartitionError,
    "topic_errors": TopicError,
    "member_errors": MemberError,
    "removed": MemberIdentity,
}


def encode_response(response: Response) -> dict[str, Any]:
    """The JSON object of a response row; what is seldom set is left out otherwise."""
    return {name: value for name, value in row_values(response).items() if value or name not in _SELDOM}


def decode_responses(value: bytes) -> list[Response]:
    """Read the rows of a record of the response topic; raises ValueError."""
    return [_response(row) for row in rows_of(value)]


def _response(row: Any) -> Response:
    try:
        if not isinstance(row, dict):
            raise TypeError("not a JSON object")
        kind: type[Any] = (
            _OF_SHARE_PARTITION.get(row["type"], SharePartitionRefusal)
            if "topic" in row
            else _OF_GROUP.get(row["type"], ShareGroupRefusal)
        )
        made: Response = kind(**{name: _decoded(name, row[name]) for name in field_names(kind) if name in row})
        return made
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a response row: {error}") from error


def share_partition_refusal(row: Mapping[str, Any], code: int, message: str) -> SharePartitionResponse:
    """The refusal of a row of `__share_partition_requests` that cannot be read: with what is known of it."""
    kind = _OF_SHARE_PARTITION.get(said_back(row, "type"), SharePartitionRefusal)
    refusal: SharePartitionResponse = kind(**_named(kind, row), error_code=int(code), error_message=message)
    return refusal


def share_group_refusal(row: Mapping[str, Any], code: int, message: str) -> ShareGroupResponse:
    """The refusal of a row of `__share_group_requests` that cannot be read: with what is known of it."""
    kind = _OF_GROUP.get(said_back(row, "type"), ShareGroupRefusal)
    refusal: ShareGroupResponse = kind(**_named(kind, row), error_code=int(code), error_message=message)
    return refusal


def without_content(row: Mapping[str, Any], code: ErrorCode, message: str) -> dict[str, Any]:
    """The response row with an error in place of all that it says: short, whatever the request was."""
    refusal = share_partition_refusal if "topic" in row else share_group_refusal
    return encode_response(refusal(row, code, message))


def _named(kind: type[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What a response cannot be without."""
    named: dict[str, Any] = {name: said_back(row, name) for name in _NEEDED[kind]}
    if "partition" in named:
        partition = row.get("partition")
        named["partition"] = partition if is_integer(partition, -MAX_INT32, MAX_INT32) else -1
    return named


def _decoded(name: str, value: Any) -> Any:
    if name in _NESTED:
        return tuple(_NESTED[name](*item) for item in value)
    return tuple(value) if name == "subscribed_topic_names" and value is not None else value
