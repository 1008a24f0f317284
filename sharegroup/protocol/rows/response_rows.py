"""Rows of the response topic: JSON objects with one response each. The key is the `reply_to` of the request.

A Kafka record may contain several rows (`response_records`). If the job fails after sending a response and before
committing its micro-batch, it sends the response again. Both responses have the same `id`, and a reader ignores the
second response.
"""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from sharegroup.errors import ErrorCode
from sharegroup.protocol.response_records import decode_rows
from sharegroup.protocol.rows.row_fields import MAX_INT32, echoed_text, field_names, is_integer, row_values
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
    ShareGroupRejection,
    ShareGroupResponse,
    TopicError,
)
from sharegroup.protocol.rows.share_partition_responses import (
    AcknowledgeResponse,
    FetchResponse,
    ReleaseMemberResponse,
    ReserveResponse,
    SharePartitionRejection,
    SharePartitionResponse,
    UnacquireResponse,
    WantedNotice,
)
from sharegroup.types import AcquiredRange

Response = SharePartitionResponse | ShareGroupResponse


def _by_type(kinds: Iterable[type[Any]]) -> dict[str, type[Any]]:
    return {kind.type: kind for kind in kinds}


_OF_SHARE_PARTITION = _by_type(
    (FetchResponse, AcknowledgeResponse, UnacquireResponse, ReleaseMemberResponse, ReserveResponse, WantedNotice)
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
_KINDS = (*_OF_SHARE_PARTITION.values(), SharePartitionRejection, *_OF_GROUP.values(), ShareGroupRejection)
_REQUIRED: dict[type[Any], tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if field.default is MISSING) for kind in _KINDS
}
#: Fields that are left out of a row if they are empty.
_OMITTED_IF_EMPTY = (
    "partition_errors",
    "topic_errors",
    "member_errors",
    "removed",
    "renewals_off",
    "read_committed",
    "delivery_count_limit",
    "retry_ms",
)
#: Fields that are lists of lists in JSON, and the type of their items.
_NESTED = {
    "acquired": AcquiredRange,
    "partition_errors": PartitionError,
    "topic_errors": TopicError,
    "member_errors": MemberError,
    "removed": MemberIdentity,
}


def encode_response(response: Response) -> dict[str, Any]:
    return {name: value for name, value in row_values(response).items() if value or name not in _OMITTED_IF_EMPTY}


def decode_responses(value: bytes) -> list[Response]:
    """Decode the rows in a record of the response topic. Raises ValueError if a row is not a response."""
    return [_response(row) for row in decode_rows(value)]


def _response(row: Any) -> Response:
    try:
        if not isinstance(row, dict):
            raise TypeError("the row is not a JSON object")
        kind: type[Any] = (
            _OF_SHARE_PARTITION.get(row["type"], SharePartitionRejection)
            if "topic" in row
            else _OF_GROUP.get(row["type"], ShareGroupRejection)
        )
        response: Response = kind(**{name: _decode(name, row[name]) for name in field_names(kind) if name in row})
        return response
    except (TypeError, KeyError) as error:
        raise ValueError(f"the row is not a response: {error}") from error


def reject_share_partition_request(row: Mapping[str, Any], code: int, message: str) -> SharePartitionResponse:
    """Return an error response to an invalid row of `__share_partition_requests`.

    Fields of the row are copied to the response. Fields that the row does not have are empty in the response.
    """
    kind = _OF_SHARE_PARTITION.get(echoed_text(row, "type"), SharePartitionRejection)
    response: SharePartitionResponse = kind(**_required_fields(kind, row), error_code=int(code), error_message=message)
    return response


def reject_share_group_request(row: Mapping[str, Any], code: int, message: str) -> ShareGroupResponse:
    """Return an error response to an invalid row of `__share_group_requests`.

    Fields of the row are copied to the response. Fields that the row does not have are empty in the response.
    """
    kind = _OF_GROUP.get(echoed_text(row, "type"), ShareGroupRejection)
    response: ShareGroupResponse = kind(**_required_fields(kind, row), error_code=int(code), error_message=message)
    return response


def to_error_row(row: Mapping[str, Any], code: ErrorCode, message: str) -> dict[str, Any]:
    """Return a short error response, to be sent instead of the response row `row`, which is too large."""
    reject = reject_share_partition_request if "topic" in row else reject_share_group_request
    return encode_response(reject(row, code, message))


def _required_fields(kind: type[Any], row: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {name: echoed_text(row, name) for name in _REQUIRED[kind]}
    if "partition" in values:
        partition = row.get("partition")
        values["partition"] = partition if is_integer(partition, -MAX_INT32, MAX_INT32) else -1
    return values


def _decode(name: str, value: Any) -> Any:
    if name in _NESTED:
        return tuple(_NESTED[name](*item) for item in value)
    return tuple(value) if name == "subscribed_topic_names" and value is not None else value
