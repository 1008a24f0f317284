"""Checks of the fields of a request row: a value of the right form, or an error that names the field.

A row is decoded in two steps, because a row that names its requester can be answered and one that does not cannot:
`InvalidRequestRow` is raised when there is nobody to answer, `AnswerableError` when there is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

from sharegroup.errors import ErrorCode, InvalidRequestRow, RequestError
from sharegroup.protocol.json_text import from_json
from sharegroup.types import AcknowledgementBatch, AcquiredRange, OffsetRange

#: MemberId is a UUID in its text form (ShareGroupHeartbeat: at most 36 characters).
MAX_MEMBER_ID_LENGTH = 36
#: As many characters as any text may have that answers repeat, or tables keep; Kafka's own names are far shorter.
MAX_TEXT_LENGTH = 1_024
MAX_OFFSET = 2**63 - 1
MAX_INT32 = 2**31 - 1
#: DeliveryCount is an int16 in ShareFetchResponse.
MAX_DELIVERY_COUNT = 2**15 - 1


class AnswerableError(RequestError):
    """A request that is wrong, from a requester who can be told: `row` holds its fields as far as they are usable."""

    def __init__(self, message: str, row: Mapping[str, Any]) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)
        self.row = row


def json_object(value: str) -> dict[str, Any]:
    """The JSON object of a row; raises InvalidRequestRow."""
    try:
        row = from_json(value)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestRow(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise InvalidRequestRow("not a JSON object")
    if "\\u" in value:  # half a surrogate pair is JSON, but no text that Kafka, Arrow or a table could hold
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InvalidRequestRow(f"not Unicode: {error.reason}") from None
    return row


def answerable(row: dict[str, Any], types: tuple[str, ...]) -> dict[str, Any]:
    """The row, once it is known who asks; every later fault is an AnswerableError."""
    if not isinstance(row.get("id"), str) or not row["id"]:
        raise InvalidRequestRow("lacks the field id")
    row.setdefault("reply_to", "")
    if not isinstance(row["reply_to"], str):
        raise InvalidRequestRow("reply_to must be a string")
    if len(row["id"]) > MAX_TEXT_LENGTH or len(row["reply_to"]) > MAX_TEXT_LENGTH:
        raise InvalidRequestRow(f"id or reply_to has more than {MAX_TEXT_LENGTH} characters")
    if row.get("type") not in types:
        raise AnswerableError(f"type must be one of {', '.join(types)}", row)
    return row


def text(
    row: Mapping[str, Any],
    field: str,
    may_be_empty: bool = False,
    default: str | None = None,
    max_length: int = MAX_TEXT_LENGTH,
) -> str:
    """A text, of `max_length` characters at the most. Raises AnswerableError."""
    value = row.get(field, default)
    if not isinstance(value, str) or not (value or may_be_empty):
        raise AnswerableError(f"lacks the field {field}" if field not in row else f"{field} must be a string", row)
    if len(value) > max_length:
        raise AnswerableError(f"{field} has more than {max_length} characters", row)
    return value


def said_back(row: Mapping[str, Any], field: str) -> str:
    """What an answer repeats of a field that may be anything: not more than a right one could have."""
    return str(row.get(field, ""))[:MAX_TEXT_LENGTH]


def member_id_of(row: Mapping[str, Any]) -> str:
    """The member id of a request for a share-partition."""
    member_id = text(row, "member_id")
    if not member_id.strip() or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise AnswerableError(f"member_id must have 1 to {MAX_MEMBER_ID_LENGTH} characters", row)
    return member_id


def is_integer(value: object, low: int, high: int) -> TypeGuard[int]:
    """Whether it is a whole number of low..high; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def integer(row: Mapping[str, Any], field: str, low: int, high: int, default: int | None = None) -> int:
    """A whole number of low..high."""
    value = row.get(field, default)
    if not is_integer(value, low, high):
        problem = f"lacks the field {field}" if field not in row else f"{field} must be an integer of {low}..{high}"
        raise AnswerableError(problem, row)
    assert isinstance(value, int)
    return value


def boolean(row: Mapping[str, Any], field: str) -> bool:
    """true or false, which is false when it is left out."""
    value = row.get(field, False)
    if not isinstance(value, bool):
        raise AnswerableError(f"{field} must be true or false", row)
    return value


def json_field(row: Mapping[str, Any], field: str) -> dict[str, Any]:
    """A JSON object inside the row."""
    value = row.get(field)
    if not isinstance(value, dict):
        raise AnswerableError(f"{field} must be a JSON object", row)
    return value


def acknowledgement_batches(row: Mapping[str, Any]) -> tuple[AcknowledgementBatch, ...]:
    """[[first_offset, last_offset, [type, ...]], ...]; what the types may be is the machine's business."""
    batches = row.get("batches")
    if not isinstance(batches, list) or not batches:
        raise AnswerableError("batches must be a list of [first_offset, last_offset, [acknowledge_type, ...]]", row)
    for batch in batches:
        if not (
            isinstance(batch, list)
            and len(batch) == 3
            and all(is_integer(offset, 0, MAX_OFFSET) for offset in batch[:2])
            and isinstance(batch[2], list)
            and all(is_integer(number, -128, 127) for number in batch[2])
        ):
            raise AnswerableError("batches must be a list of [first_offset, last_offset, [acknowledge_type, ...]]", row)
    return tuple(AcknowledgementBatch(first, last, tuple(types)) for first, last, types in batches)


def offset_ranges(row: Mapping[str, Any], field: str, may_be_empty: bool = False) -> tuple[OffsetRange, ...]:
    """[[first_offset, last_offset], ...]"""
    ranges = row.get(field)
    if not _are_ranges(ranges, 2, may_be_empty):
        raise AnswerableError(f"{field} must be a list of [first_offset, last_offset]", row)
    assert isinstance(ranges, list)
    return tuple(OffsetRange(first, last) for first, last in ranges)


def acquired_ranges(row: Mapping[str, Any], field: str) -> tuple[AcquiredRange, ...]:
    """[[first_offset, last_offset, delivery_count], ...]"""
    ranges = row.get(field)
    if not _are_ranges(ranges, 3) or not all(is_integer(item[2], 1, MAX_DELIVERY_COUNT) for item in ranges or ()):
        raise AnswerableError(f"{field} must be a list of [first_offset, last_offset, delivery_count]", row)
    assert isinstance(ranges, list)
    return tuple(AcquiredRange(first, last, count) for first, last, count in ranges)


def _are_ranges(ranges: object, width: int, may_be_empty: bool = False) -> bool:
    """Whether these are lists of `width`, each beginning with two offsets in order."""
    return (
        isinstance(ranges, list)
        and bool(ranges or may_be_empty)
        and all(
            isinstance(item, list)
            and len(item) == width
            and all(is_integer(offset, 0, MAX_OFFSET) for offset in item[:2])
            and item[0] <= item[1]
            for item in ranges
        )
    )
