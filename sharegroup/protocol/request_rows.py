"""Rows of the two request topics: JSON objects, one request each. Data and its checks only.

`__share_partition_requests` holds requests for one share-partition each, keyed by it, so that one Kafka partition keeps
their order. `__share_group_requests` holds heartbeats, what administrators want of a group, and the job's own notices,
keyed by the group id.

A row is decoded in two steps, because a row that names its requester can be answered and one that does not cannot:
`decode_*` raises `InvalidRequestRow` when there is nobody to answer, and `RequestError` (INVALID_REQUEST) with
`row` set to what is known when there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sharegroup.errors import InvalidRequestRow
from sharegroup.protocol import share_group_fields
from sharegroup.protocol.row_fields import (
    MAX_INT32,
    MAX_MEMBER_ID_LENGTH,
    MAX_OFFSET,
    AnswerableError,
    acknowledgement_batches,
    acquired_ranges,
    answerable,
    boolean,
    integer,
    json_field,
    json_object,
    member_id_of,
    offset_ranges,
    text,
)
from sharegroup.protocol.share_group_fields import StartOffset, TopicMetadata
from sharegroup.types import MAX_TOPIC_NAME_LENGTH, AcknowledgementBatch, AcquiredRange, OffsetRange

__all__ = [
    "ACKNOWLEDGE",
    "ALTER_CONFIGS",
    "ALTER_OFFSETS",
    "CONFIGURE",
    "DELETED",
    "DELETE_GROUP",
    "DELETE_OFFSETS",
    "FETCH",
    "HEARTBEAT",
    "INITIALIZED",
    "MAX_INT32",
    "MAX_MEMBER_ID_LENGTH",
    "MAX_OFFSET",
    "MAX_RANGES_PER_ROW",
    "RELEASE_MEMBER",
    "SHARE_GROUP_REQUESTS",
    "SHARE_PARTITION_REQUESTS",
    "TOPIC_DELETED",
    "UNACQUIRE",
    "AnswerableError",
    "ShareGroupRequest",
    "SharePartitionRequest",
    "StartOffset",
    "TopicMetadata",
    "decode_share_group_request",
    "decode_share_partition_request",
    "in_rows",
]

T = TypeVar("T")

FETCH = "fetch"
ACKNOWLEDGE = "acknowledge"
UNACQUIRE = "unacquire"
RELEASE_MEMBER = "release_member"
CONFIGURE = "configure"
SHARE_PARTITION_REQUESTS = (FETCH, ACKNOWLEDGE, UNACQUIRE, RELEASE_MEMBER, CONFIGURE)

HEARTBEAT = "heartbeat"
INITIALIZED = "initialized"
DELETED = "deleted"
TOPIC_DELETED = "topic_deleted"
ALTER_OFFSETS = "alter_offsets"
DELETE_OFFSETS = "delete_offsets"
DELETE_GROUP = "delete_group"
ALTER_CONFIGS = "alter_configs"
SHARE_GROUP_REQUESTS = (
    HEARTBEAT, INITIALIZED, DELETED, TOPIC_DELETED, ALTER_OFFSETS, DELETE_OFFSETS, DELETE_GROUP, ALTER_CONFIGS
)  # fmt: skip


#: Ranges or acknowledgement batches of one row, which has to fit into a message.
MAX_RANGES_PER_ROW = 5_000


def in_rows(ranges: Sequence[T], most: int) -> Iterator[tuple[T, ...]]:
    """The ranges of as many rows as it takes, `most` in each."""
    for first in range(0, len(ranges), most):
        yield tuple(ranges[first : first + most])


class SharePartitionRequest(NamedTuple):
    """A row of `__share_partition_requests`.

    `type` is fetch, acknowledge, unacquire, release_member or configure. `topic_id` says which topic is meant, even
    when another one has its name by now. `member_epoch` is the member's epoch in the group (-1: not known, not
    checked); a request with an epoch that a release_member has already closed is refused. `reply_to` keys the response
    ("": no response is wanted). `max_wait_ms` counts from the row's append to the topic.

    Of acknowledge: `acquired` are the grants that it answers, with the delivery counts that they were granted with; it
    applies to these alone. Without any it applies to what the member holds, whenever it got it. `lock_deadline_ms` is
    when the first of their locks ends, as the requester knows it (-1: it does not): what is appended later is not taken
    for records that are finished by then, whoever finished them.

    Of unacquire: `ranges` must all be held by the member; `acquired` are ranges with the delivery counts that they were
    granted with, of which those go back that nothing has happened to since, whether they are still held or their locks
    have run out. Of release_member: `delivered` is what the member was sent of what it holds, None if that is not
    known (the rest never left the gateway, and gets its delivery attempt back); `requester`, where not "", is whose
    session with the member has ended: that is ignored once the member has got records for another `reply_to`.
    `opened_ms` (-1: no) says instead that a session has been opened, and when: that is ignored once the member has got
    records by a fetch of later.

    Of configure, which the group coordinator sends before it answers alter_configs: `config` is the group's effective
    config from here on (`GroupConfig.to_json`); nobody is the member (`member_id` "").
    """

    type: str
    id: str
    group_id: str
    topic: str
    topic_id: str
    partition: int
    member_id: str
    member_epoch: int = -1
    reply_to: str = ""
    max_records: int = 0
    max_wait_ms: int = 0
    is_renew_ack: bool = False
    batches: tuple[AcknowledgementBatch, ...] = ()
    ranges: tuple[OffsetRange, ...] = ()
    acquired: tuple[AcquiredRange, ...] = ()
    delivered: tuple[OffsetRange, ...] | None = None
    requester: str = ""
    config: Mapping[str, Any] = {}
    lock_deadline_ms: int = -1
    opened_ms: int = -1

    def encode(self) -> bytes:
        """The row's value: a JSON object with the fields that this type uses."""
        row: dict[str, Any] = {field: getattr(self, field) for field in _COMMON_FIELDS}
        if self.type == FETCH:
            row |= {"max_records": self.max_records, "max_wait_ms": self.max_wait_ms}
        elif self.type == ACKNOWLEDGE:
            row |= {"batches": self.batches, "is_renew_ack": self.is_renew_ack}
            row |= {"acquired": self.acquired} if self.acquired else {}
            row |= {"lock_deadline_ms": self.lock_deadline_ms} if self.lock_deadline_ms >= 0 else {}
        elif self.type == UNACQUIRE:
            row |= {"acquired": self.acquired} if self.acquired else {"ranges": self.ranges}
        elif self.type == CONFIGURE:
            row |= {"config": self.config}
        elif self.delivered is not None:
            row |= {"delivered": self.delivered, "requester": self.requester}
        elif self.opened_ms >= 0:
            row |= {"opened_ms": self.opened_ms}
        return json.dumps(row, separators=(",", ":")).encode()

    @property
    def kafka_key(self) -> bytes:
        """The row's key: one share-partition, one Kafka partition."""
        return f"{self.group_id}\t{self.topic_id}\t{self.partition}".encode()


_COMMON_FIELDS = ("type", "id", "group_id", "topic", "topic_id", "partition", "member_id", "member_epoch", "reply_to")


class ShareGroupRequest(NamedTuple):
    """A row of `__share_group_requests`: a heartbeat, an administrator's request, or a notice of the other query.

    `subscribed_topic_names` is None when the subscription did not change; `topics` is the metadata of the subscribed
    topics (of alter_offsets: of the named ones), as far as the requester knows it. The notices `initialized` and
    `deleted` list (topic id, partition, state_epoch) whose initial state, or whose deletion, is durable; the notice
    `topic_deleted` lists the `topic_ids` of topics that are no more. `offsets` is what
    alter_offsets sets, `topic_names` what delete_offsets deletes, `configs` what alter_configs sets (None: takes away;
    with `validate_only` it is only checked).
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
    deleted: tuple[tuple[str, int, int], ...] = ()
    topic_ids: tuple[str, ...] = ()
    offsets: tuple[StartOffset, ...] = ()
    topic_names: tuple[str, ...] = ()
    configs: Mapping[str, str | None] = {}
    validate_only: bool = False

    def encode(self) -> bytes:
        """The row's value: a JSON object; what only an administrator's request has is left out of others."""
        row = {name: value for name, value in self._asdict().items() if value or name not in _SELDOM}
        return json.dumps(row, separators=(",", ":")).encode()

    @property
    def kafka_key(self) -> bytes:
        """The row's key: one group, one Kafka partition."""
        return self.group_id.encode()


_SELDOM = ("deleted", "topic_ids", "offsets", "topic_names", "configs", "validate_only")


def is_awaited(value: bytes) -> bool:
    """Whether a row names someone who waits for its response; False for what is no row at all."""
    try:
        return bool(json_object(value.decode(errors="replace")).get("reply_to"))
    except InvalidRequestRow:
        return False


def decode_share_partition_request(value: str) -> SharePartitionRequest:
    """Read a row of `__share_partition_requests`.

    Raises InvalidRequestRow (nobody to answer) or AnswerableError (INVALID_REQUEST to the requester).
    """
    row = answerable(json_object(value), SHARE_PARTITION_REQUESTS)
    partition = integer(row, "partition", 0, MAX_INT32)
    kind = row["type"]
    return SharePartitionRequest(
        type=kind,
        id=row["id"],
        group_id=text(row, "group_id"),
        topic=text(row, "topic", max_length=MAX_TOPIC_NAME_LENGTH),
        topic_id=text(row, "topic_id"),
        partition=partition,
        member_id=member_id_of(row) if kind != CONFIGURE else "",
        member_epoch=integer(row, "member_epoch", -1, MAX_INT32, default=-1),
        reply_to=row["reply_to"],
        max_records=integer(row, "max_records", 1, MAX_INT32) if kind == FETCH else 0,
        max_wait_ms=integer(row, "max_wait_ms", 0, MAX_INT32) if kind == FETCH else 0,
        is_renew_ack=boolean(row, "is_renew_ack") if kind == ACKNOWLEDGE else False,
        batches=acknowledgement_batches(row) if kind == ACKNOWLEDGE else (),
        ranges=offset_ranges(row, "ranges") if kind == UNACQUIRE and "acquired" not in row else (),
        acquired=acquired_ranges(row, "acquired") if kind in (ACKNOWLEDGE, UNACQUIRE) and "acquired" in row else (),
        delivered=_delivered(row) if kind == RELEASE_MEMBER else None,
        requester=text(row, "requester", may_be_empty=True, default="") if kind == RELEASE_MEMBER else "",
        config=json_field(row, "config") if kind == CONFIGURE else {},
        lock_deadline_ms=integer(row, "lock_deadline_ms", -1, MAX_OFFSET, default=-1) if kind == ACKNOWLEDGE else -1,
        opened_ms=integer(row, "opened_ms", -1, MAX_OFFSET, default=-1) if kind == RELEASE_MEMBER else -1,
    )


def _delivered(row: Mapping[str, Any]) -> tuple[OffsetRange, ...] | None:
    """Nothing may have been delivered, which is not the same as not knowing it."""
    delivered = row.get("delivered")
    return delivered if delivered is None else offset_ranges(row, "delivered", may_be_empty=True)


def decode_share_group_request(value: str) -> ShareGroupRequest:
    """Read a row of `__share_group_requests`; raises as `decode_share_partition_request`.

    Only the row's form is checked here; what the group coordinator refuses (an empty member id, an epoch below -1), it
    refuses itself with the KIP's message.
    """
    row = answerable(json_object(value), SHARE_GROUP_REQUESTS)
    kind = row["type"]
    return ShareGroupRequest(
        type=kind,
        id=row["id"],
        group_id=text(row, "group_id", may_be_empty=True),
        member_id=text(row, "member_id", may_be_empty=True, default=""),
        member_epoch=integer(row, "member_epoch", -MAX_INT32, MAX_INT32, default=-1),
        reply_to=row["reply_to"],
        rack_id=None if row.get("rack_id") is None else text(row, "rack_id", may_be_empty=True),
        client_id=text(row, "client_id", may_be_empty=True, default=""),
        client_host=text(row, "client_host", may_be_empty=True, default=""),
        subscribed_topic_names=share_group_fields.subscribed_topic_names(row),
        topics=share_group_fields.topic_metadata(row),
        initialized=share_group_fields.share_partitions(row, "initialized"),
        deleted=share_group_fields.share_partitions(row, "deleted"),
        topic_ids=share_group_fields.topic_ids(row) if kind == TOPIC_DELETED else (),
        offsets=share_group_fields.start_offsets(row) if kind == ALTER_OFFSETS else (),
        topic_names=share_group_fields.topic_names(row, "topic_names") if kind == DELETE_OFFSETS else (),
        configs=share_group_fields.configs(row) if kind == ALTER_CONFIGS else {},
        validate_only=boolean(row, "validate_only") if kind == ALTER_CONFIGS else False,
    )
