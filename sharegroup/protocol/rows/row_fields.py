"""Checks of the fields of request rows, and the conversion of rows to JSON objects.

A check returns the value of a field, or raises an error that names the field.

A response can be sent only if a row has a valid `id` and `reply_to`. If one of these fields is invalid,
`InvalidRequestRow` is raised. If another field is invalid, `InvalidFieldError` is raised.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeGuard

from sharegroup.errors import ErrorCode, InvalidRequestRow, RequestError
from sharegroup.protocol.json_text import from_json
from sharegroup.types import AcknowledgementBatch, AcquiredRange, OffsetRange

#: Maximum length of a member id in characters. Member ids are UUIDs as text (see ShareGroupHeartbeat).
MAX_MEMBER_ID_LENGTH = 36
#: Maximum length of a text that is repeated in responses or stored in tables. Names in Kafka are far shorter.
MAX_TEXT_LENGTH = 1_024
MAX_OFFSET = 2**63 - 1
MAX_INT32 = 2**31 - 1
#: The largest delivery count, which is an int16 in ShareFetchResponse.
MAX_DELIVERY_COUNT = 2**15 - 1


class InvalidFieldError(RequestError):
    """A request row has an invalid field. An error response can be sent, because its `id` and `reply_to` are valid.

    `row` contains all fields of the row.
    """

    def __init__(self, message: str, row: Mapping[str, Any]) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)
        self.row = row


def json_object(value: str) -> dict[str, Any]:
    """Parse a row. Raises InvalidRequestRow if it is not a JSON object or contains text that is not valid Unicode."""
    try:
        row = from_json(value)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestRow(f"the row is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise InvalidRequestRow("the row is not a JSON object")
    if "\\u" in value:  # JSON may have lone surrogates, which Kafka, Arrow and the tables cannot store
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InvalidRequestRow(f"the row is not Unicode: {error.reason}") from None
    return row


def check_header(row: dict[str, Any], types: tuple[str, ...]) -> dict[str, Any]:
    """Check `id`, `reply_to` and `type` of a row, and return the row. A missing `reply_to` is set to "".

    Raises InvalidRequestRow if `id` or `reply_to` is invalid, and InvalidFieldError if `type` is not in `types`.
    """
    if not isinstance(row.get("id"), str) or not row["id"]:
        raise InvalidRequestRow("id must be a non-empty string")
    row.setdefault("reply_to", "")
    if not isinstance(row["reply_to"], str):
        raise InvalidRequestRow("reply_to must be a string")
    if len(row["id"]) > MAX_TEXT_LENGTH or len(row["reply_to"]) > MAX_TEXT_LENGTH:
        raise InvalidRequestRow(f"id or reply_to has more than {MAX_TEXT_LENGTH} characters")
    if row.get("type") not in types:
        raise InvalidFieldError(f"type must be one of {', '.join(types)}", row)
    return row


def text(
    row: Mapping[str, Any],
    field: str,
    may_be_empty: bool = False,
    default: str | None = None,
    max_length: int = MAX_TEXT_LENGTH,
) -> str:
    """Return a string field, or `default` if it is missing.

    Raises InvalidFieldError if there is neither a field nor a default. Also raises it if the value is not a string, has
    more than `max_length` characters, or is empty while `may_be_empty` is False.
    """
    value = row.get(field, default)
    if not isinstance(value, str):
        raise InvalidFieldError(
            f"the field {field} is missing" if field not in row else f"{field} must be a string", row
        )
    if not value and not may_be_empty:
        raise InvalidFieldError(f"{field} must not be empty", row)
    if len(value) > max_length:
        raise InvalidFieldError(f"{field} has more than {max_length} characters", row)
    return value


def echoed_text(row: Mapping[str, Any], field: str) -> str:
    """Return a field as text for an error response, at most `MAX_TEXT_LENGTH` characters. "" if it is missing."""
    return str(row.get(field, ""))[:MAX_TEXT_LENGTH]


def member_id_of(row: Mapping[str, Any]) -> str:
    """Return the member id of a row. Raises InvalidFieldError if it is missing, blank or too long."""
    member_id = text(row, "member_id")
    if not member_id.strip() or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise InvalidFieldError(f"member_id must have 1 to {MAX_MEMBER_ID_LENGTH} characters", row)
    return member_id


def is_integer(value: object, low: int, high: int) -> TypeGuard[int]:
    """Return whether a value is an integer from `low` to `high`, and not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def integer(row: Mapping[str, Any], field: str, low: int, high: int, default: int | None = None) -> int:
    """Return an integer field, or `default` if it is missing.

    Raises InvalidFieldError if there is neither a field nor a default, or if the value is not an integer from `low` to
    `high`.
    """
    value = row.get(field, default)
    if not is_integer(value, low, high):
        problem = (
            f"the field {field} is missing" if field not in row else f"{field} must be an integer from {low} to {high}"
        )
        raise InvalidFieldError(problem, row)
    assert isinstance(value, int)
    return value


def boolean(row: Mapping[str, Any], field: str) -> bool:
    """Return a boolean field, or False if it is missing. Raises InvalidFieldError for a value of another type."""
    value = row.get(field, False)
    if not isinstance(value, bool):
        raise InvalidFieldError(f"{field} must be true or false", row)
    return value


def json_field(row: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return a field that is a JSON object. Raises InvalidFieldError if it is missing or not an object."""
    value = row.get(field)
    if not isinstance(value, dict):
        raise InvalidFieldError(f"{field} must be a JSON object", row)
    return value


def acknowledgement_batches(row: Mapping[str, Any]) -> tuple[AcknowledgementBatch, ...]:
    """Parse the field `batches`: [[first_offset, last_offset, [acknowledge_type, ...]], ...].

    Raises InvalidFieldError for another format or an empty list. `acknowledge_rules` checks the ranges and types later.
    """
    batches = row.get("batches")
    if not isinstance(batches, list) or not batches:
        raise InvalidFieldError("batches must be a list of [first_offset, last_offset, [acknowledge_type, ...]]", row)
    for batch in batches:
        if not (
            isinstance(batch, list)
            and len(batch) == 3
            and all(is_integer(offset, 0, MAX_OFFSET) for offset in batch[:2])
            and isinstance(batch[2], list)
            and all(is_integer(number, -128, 127) for number in batch[2])
        ):
            raise InvalidFieldError(
                "batches must be a list of [first_offset, last_offset, [acknowledge_type, ...]]", row
            )
    return tuple(AcknowledgementBatch(first, last, tuple(types)) for first, last, types in batches)


def offset_ranges(row: Mapping[str, Any], field: str, may_be_empty: bool = False) -> tuple[OffsetRange, ...]:
    """Parse [[first_offset, last_offset], ...].

    Raises InvalidFieldError for another format. Without `may_be_empty`, also raises it for an empty list.
    """
    ranges = row.get(field)
    if not _are_ranges(ranges, 2, may_be_empty):
        raise InvalidFieldError(f"{field} must be a list of [first_offset, last_offset]", row)
    assert isinstance(ranges, list)
    return tuple(OffsetRange(first, last) for first, last in ranges)


def acquired_ranges(row: Mapping[str, Any], field: str) -> tuple[AcquiredRange, ...]:
    """Parse [[first_offset, last_offset, delivery_count], ...].

    Raises InvalidFieldError for another format or an empty list.
    """
    ranges = row.get(field)
    if not _are_ranges(ranges, 3) or not all(is_integer(item[2], 1, MAX_DELIVERY_COUNT) for item in ranges or ()):
        raise InvalidFieldError(f"{field} must be a list of [first_offset, last_offset, delivery_count]", row)
    assert isinstance(ranges, list)
    return tuple(AcquiredRange(first, last, count) for first, last, count in ranges)


def _are_ranges(ranges: object, width: int, may_be_empty: bool = False) -> bool:
    """Return whether `ranges` is a list of lists of length `width` that begin with a first and a last offset."""
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


_FIELD_NAMES: dict[type[Any], tuple[str, ...]] = {}


def field_names(kind: type[Any]) -> tuple[str, ...]:
    """Return the field names of a row dataclass in order. The result is cached, because it is used for every row."""
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(field.name for field in fields(kind))
    return names


def row_values(row: Any) -> dict[str, Any]:
    """Return the fields of a row, including its `type`, as a dict for JSON."""
    return {"type": row.type} | {name: getattr(row, name) for name in field_names(type(row))}
