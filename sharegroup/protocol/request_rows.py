"""Rows of the two request topics: JSON objects, one request each. Data and its checks only.

`__share_partition_requests` holds requests for one share-partition each, keyed by it, so that one Kafka partition keeps
their order. `__share_group_requests` holds heartbeats and the job's own notices, keyed by the group id.

A row is decoded in two steps, because a row that names its requester can be answered and one that does not cannot:
`decode_*` raises `InvalidRequestRow` when there is nobody to answer, and `RequestError` (INVALID_REQUEST) with
`row` set to what is known when there is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sharegroup.errors import ErrorCode, InvalidRequestRow, RequestError
from sharegroup.types import AcknowledgementBatch, OffsetRange

FETCH = "fetch"
ACKNOWLEDGE = "acknowledge"
UNACQUIRE = "unacquire"
RELEASE_MEMBER = "release_member"
SHARE_PARTITION_REQUESTS = (FETCH, ACKNOWLEDGE, UNACQUIRE, RELEASE_MEMBER)

HEARTBEAT = "heartbeat"
INITIALIZED = "initialized"
SHARE_GROUP_REQUESTS = (HEARTBEAT, INITIALIZED)

#: MemberId is a UUID in its text form (kafka_surface: ShareGroupHeartbeat, at most 36 characters).
MAX_MEMBER_ID_LENGTH = 36
MAX_OFFSET = 2**63 - 1
MAX_INT32 = 2**31 - 1


class SharePartitionRequest(NamedTuple):
    """A row of `__share_partition_requests`.

    `type` is fetch, acknowledge, unacquire or release_member. `member_epoch` is the member's epoch in the group (-1:
    not known, not checked); a request with an epoch that a release_member has already closed is refused. `reply_to`
    keys the response ("" : no response is wanted). `max_wait_ms` counts from the row's append to the topic.
    """

    type: str
    id: str
    group_id: str
    topic: str
    partition: int
    member_id: str
    member_epoch: int = -1
    reply_to: str = ""
    max_records: int = 0
    max_wait_ms: int = 0
    is_renew_ack: bool = False
    batches: tuple[AcknowledgementBatch, ...] = ()
    ranges: tuple[OffsetRange, ...] = ()

    def encode(self) -> bytes:
        """The row's value: a JSON object with the fields that this type uses."""
        row: dict[str, Any] = {field: getattr(self, field) for field in _COMMON_FIELDS}
        if self.type == FETCH:
            row |= {"max_records": self.max_records, "max_wait_ms": self.max_wait_ms}
        elif self.type == ACKNOWLEDGE:
            row |= {"batches": self.batches, "is_renew_ack": self.is_renew_ack}
        elif self.type == UNACQUIRE:
            row |= {"ranges": self.ranges}
        return json.dumps(row, separators=(",", ":")).encode()

    @property
    def kafka_key(self) -> bytes:
        """The row's key: one share-partition, one Kafka partition."""
        return f"{self.group_id}\t{self.topic}\t{self.partition}".encode()


_COMMON_FIELDS = ("type", "id", "group_id", "topic", "partition", "member_id", "member_epoch", "reply_to")


class TopicMetadata(NamedTuple):
    """What the requester knows of a subscribed topic: its id as text and its number of partitions."""

    topic_id: str
    partitions: int


class ShareGroupRequest(NamedTuple):
    """A row of `__share_group_requests`: a member's heartbeat, or the share_partition query's notice `initialized`.

    `subscribed_topic_names` is None when the subscription did not change; `topics` is the metadata of the subscribed
    topics, as far as the requester knows it; `initialized` lists (topic, partition, state_epoch) whose initial state is
    durable.
    """

    type: str
    id: str
    group_id: str
    member_id: str = ""
    member_epoch: int = -1
    reply_to: str = ""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] | None = None
    topics: Mapping[str, TopicMetadata] = {}
    initialized: tuple[tuple[str, int, int], ...] = ()

    def encode(self) -> bytes:
        """The row's value: a JSON object of all fields."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()

    @property
    def kafka_key(self) -> bytes:
        """The row's key: one group, one Kafka partition."""
        return self.group_id.encode()


class AnswerableError(RequestError):
    """A request that is wrong, from a requester who can be told: `row` holds its fields as far as they are usable."""

    def __init__(self, message: str, row: Mapping[str, Any]) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)
        self.row = row


def decode_share_partition_request(value: str) -> SharePartitionRequest:
    """Read a row of `__share_partition_requests`.

    Raises InvalidRequestRow (nobody to answer) or AnswerableError (INVALID_REQUEST to the requester).
    """
    row = _answerable(_json_object(value), SHARE_PARTITION_REQUESTS)
    partition = _integer(row, "partition", 0, MAX_INT32)
    kind = row["type"]
    return SharePartitionRequest(
        type=kind,
        id=row["id"],
        group_id=_text(row, "group_id"),
        topic=_text(row, "topic"),
        partition=partition,
        member_id=_member_id(row),
        member_epoch=_integer(row, "member_epoch", -1, MAX_INT32, default=-1),
        reply_to=row["reply_to"],
        max_records=_integer(row, "max_records", 1, MAX_INT32) if kind == FETCH else 0,
        max_wait_ms=_integer(row, "max_wait_ms", 0, MAX_INT32) if kind == FETCH else 0,
        is_renew_ack=_boolean(row, "is_renew_ack") if kind == ACKNOWLEDGE else False,
        batches=_acknowledgement_batches(row) if kind == ACKNOWLEDGE else (),
        ranges=_offset_ranges(row) if kind == UNACQUIRE else (),
    )


def decode_share_group_request(value: str) -> ShareGroupRequest:
    """Read a row of `__share_group_requests`; raises as `decode_share_partition_request`.

    Only the row's form is checked here; what the group coordinator refuses (an empty member id, an epoch below -1), it
    refuses itself with the KIP's message.
    """
    row = _answerable(_json_object(value), SHARE_GROUP_REQUESTS)
    names = row.get("subscribed_topic_names")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) and name for name in names)):
        raise AnswerableError("subscribed_topic_names must be a list of topic names or null", row)
    return ShareGroupRequest(
        type=row["type"],
        id=row["id"],
        group_id=_text(row, "group_id", may_be_empty=True),
        member_id=_text(row, "member_id", may_be_empty=True, default=""),
        member_epoch=_integer(row, "member_epoch", -MAX_INT32, MAX_INT32, default=-1),
        reply_to=row["reply_to"],
        rack_id=None if row.get("rack_id") is None else _text(row, "rack_id", may_be_empty=True),
        client_id=_text(row, "client_id", may_be_empty=True, default=""),
        client_host=_text(row, "client_host", may_be_empty=True, default=""),
        subscribed_topic_names=None if names is None else tuple(names),
        topics=_topic_metadata(row),
        initialized=_initialized(row),
    )


def _json_object(value: str) -> dict[str, Any]:
    try:
        row = json.loads(value)
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


def _answerable(row: dict[str, Any], types: tuple[str, ...]) -> dict[str, Any]:
    """The row, once it is known who asks; every later fault is an AnswerableError."""
    if not isinstance(row.get("id"), str) or not row["id"]:
        raise InvalidRequestRow("lacks the field id")
    row.setdefault("reply_to", "")
    if not isinstance(row["reply_to"], str):
        raise InvalidRequestRow("reply_to must be a string")
    if row.get("type") not in types:
        raise AnswerableError(f"type must be one of {', '.join(types)}", row)
    return row


def _text(row: Mapping[str, Any], field: str, may_be_empty: bool = False, default: str | None = None) -> str:
    value = row.get(field, default)
    if not isinstance(value, str) or not (value or may_be_empty):
        raise AnswerableError(f"lacks the field {field}" if field not in row else f"{field} must be a string", row)
    return value


def _member_id(row: Mapping[str, Any]) -> str:
    member_id = _text(row, "member_id")
    if not member_id.strip() or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise AnswerableError(f"member_id must have 1 to {MAX_MEMBER_ID_LENGTH} characters", row)
    return member_id


def _is_integer(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _integer(row: Mapping[str, Any], field: str, low: int, high: int, default: int | None = None) -> int:
    value = row.get(field, default)
    if not _is_integer(value, low, high):
        problem = f"lacks the field {field}" if field not in row else f"{field} must be an integer of {low}..{high}"
        raise AnswerableError(problem, row)
    assert isinstance(value, int)
    return value


def _boolean(row: Mapping[str, Any], field: str) -> bool:
    value = row.get(field, False)
    if not isinstance(value, bool):
        raise AnswerableError(f"{field} must be true or false", row)
    return value


def _acknowledgement_batches(row: Mapping[str, Any]) -> tuple[AcknowledgementBatch, ...]:
    """[[first_offset, last_offset, [type, ...]], ...]; what the types may be is the machine's business."""
    batches = row.get("batches")
    if not isinstance(batches, list) or not batches:
        raise AnswerableError("batches must be a list of [first_offset, last_offset, [acknowledge_type, ...]]", row)
    for batch in batches:
        if not (
            isinstance(batch, list)
            and len(batch) == 3
            and all(_is_integer(offset, 0, MAX_OFFSET) for offset in batch[:2])
            and isinstance(batch[2], list)
            and all(_is_integer(number, -128, 127) for number in batch[2])
        ):
            raise AnswerableError("batches must be a list of [first_offset, last_offset, [acknowledge_type, ...]]", row)
    return tuple(AcknowledgementBatch(first, last, tuple(types)) for first, last, types in batches)


def _offset_ranges(row: Mapping[str, Any]) -> tuple[OffsetRange, ...]:
    ranges = row.get("ranges")
    if (
        not isinstance(ranges, list)
        or not ranges
        or not all(
            isinstance(item, list)
            and len(item) == 2
            and all(_is_integer(offset, 0, MAX_OFFSET) for offset in item)
            and item[0] <= item[1]
            for item in ranges
        )
    ):
        raise AnswerableError("ranges must be a list of [first_offset, last_offset]", row)
    return tuple(OffsetRange(first, last) for first, last in ranges)


def _topic_metadata(row: Mapping[str, Any]) -> dict[str, TopicMetadata]:
    topics = row.get("topics", {})
    if not isinstance(topics, dict) or not all(
        isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and _is_integer(item[1], 0, 1_000_000)
        for item in topics.values()
    ):
        raise AnswerableError("topics must map topic names to [topic_id, partitions]", row)
    return {name: TopicMetadata(topic_id, partitions) for name, (topic_id, partitions) in topics.items()}


def _initialized(row: Mapping[str, Any]) -> tuple[tuple[str, int, int], ...]:
    items = row.get("initialized", [])
    if not isinstance(items, list) or not all(
        isinstance(item, list)
        and len(item) == 3
        and isinstance(item[0], str)
        and all(_is_integer(number, 0, MAX_INT32) for number in item[1:])
        for item in items
    ):
        raise AnswerableError("initialized must be a list of [topic, partition, state_epoch]", row)
    return tuple((topic, partition, state_epoch) for topic, partition, state_epoch in items)
