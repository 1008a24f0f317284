"""Rows of `__share_partition_requests`: JSON objects, one request for one share-partition each. Data and checks only.

A row is keyed by its share-partition, so that one Kafka partition keeps the order of its requests. Each kind of row has
a class, and `decode_share_partition_request` gives the one that a row is of; `match` tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeVar

from sharegroup.protocol.json_text import to_json
from sharegroup.protocol.rows.row_fields import (
    MAX_INT32,
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
from sharegroup.protocol.rows.typed_rows import row_values
from sharegroup.types import MAX_TOPIC_NAME_LENGTH, AcknowledgementBatch, AcquiredRange, OffsetRange

__all__ = [
    "ACKNOWLEDGE",
    "CONFIGURE",
    "FENCE_MEMBER",
    "FETCH",
    "MAX_RANGES_PER_ROW",
    "RELEASE_MEMBER",
    "SHARE_PARTITION_REQUESTS",
    "UNACQUIRE",
    "AcknowledgeRequest",
    "AnswerableError",
    "ConfigureRequest",
    "FenceMemberRequest",
    "FetchRequest",
    "ReleaseMemberRequest",
    "SharePartitionRequest",
    "UnacquireRequest",
    "decode_share_partition_request",
    "in_rows",
]

T = TypeVar("T")

#: Ranges or acknowledgement batches of one row, which has to fit into a message.
MAX_RANGES_PER_ROW = 5_000

FETCH = "fetch"
ACKNOWLEDGE = "acknowledge"
UNACQUIRE = "unacquire"
RELEASE_MEMBER = "release_member"
FENCE_MEMBER = "fence_member"
CONFIGURE = "configure"


def in_rows(ranges: Sequence[T], most: int) -> Iterator[tuple[T, ...]]:
    """The ranges of as many rows as it takes, `most` in each."""
    for first in range(0, len(ranges), most):
        yield tuple(ranges[first : first + most])


@dataclass(frozen=True, slots=True)
class _Request:
    """What every kind of row says.

    `topic_id` says which topic is meant, even when another one has its name by now. `member_epoch` is the member's
    epoch in the group (-1: not known, not checked); a request with an epoch that a release_member has already closed is
    refused. `reply_to` keys the response ("": no response is wanted). `incarnation_id` is of the process that speaks as
    the member (None: it does not say); one whose place another process has taken is refused.
    """

    type: ClassVar[str]

    id: str
    group_id: str
    topic: str
    topic_id: str
    partition: int
    member_id: str
    member_epoch: int = -1
    reply_to: str = ""
    incarnation_id: str | None = None

    def encode(self) -> bytes:
        """The row's value: a JSON object."""
        row = row_values(self)
        for name in self._left_out():
            del row[name]
        if self.incarnation_id is None:
            del row["incarnation_id"]
        return to_json(row).encode()

    @property
    def kafka_key(self) -> bytes:
        """The row's key: one share-partition, one Kafka partition."""
        return f"{self.group_id}\t{self.topic_id}\t{self.partition}".encode()

    def _left_out(self) -> tuple[str, ...]:
        """Fields that say nothing in this row."""
        return ()


@dataclass(frozen=True, slots=True)
class FetchRequest(_Request):
    """A member wants `max_records` records at most, and waits for them for `max_wait_ms` from the row's append on.

    `is_static`: the locks are to outlast a restart of the member, which is a static one (KIP-345). `opened_ms` (-1: no)
    says that it is the first fetch of a session, opened then, of a process that knows of nothing that the member holds:
    that is released, and this fetch is met first. It says nothing once the member has got records by a later fetch.
    `linger_ms` is how long the row may wait for others before the job takes it in: the member has records until then.
    """

    type: ClassVar[str] = FETCH

    _: KW_ONLY
    max_records: int
    max_wait_ms: int = 0
    is_static: bool = False
    opened_ms: int = -1
    linger_ms: int = 0

    def _left_out(self) -> tuple[str, ...]:
        known = {
            "is_static": self.is_static,
            "opened_ms": self.opened_ms >= 0,
            "linger_ms": self.linger_ms > 0,
        }
        return tuple(name for name, is_known in known.items() if not is_known)


@dataclass(frozen=True, slots=True)
class AcknowledgeRequest(_Request):
    """A member acknowledges `batches`, or renews locks.

    `acquired` are the grants that it answers, with the delivery counts that they were granted with; it applies to these
    alone. Without any it applies to what the member holds, whenever it got it. `lock_deadline_ms` is when the first of
    their locks ends, as the requester knows it (-1: it does not): what is appended later is not taken for records that
    are finished by then, whoever finished them. `is_static`: what is renewed is to outlast a restart of the member.
    `linger_ms` is how long the row may wait for others, where nobody waits for what it may free: the requester can wait
    for the answer.
    """

    type: ClassVar[str] = ACKNOWLEDGE

    _: KW_ONLY
    batches: tuple[AcknowledgementBatch, ...]
    is_renew_ack: bool = False
    acquired: tuple[AcquiredRange, ...] = ()
    lock_deadline_ms: int = -1
    is_static: bool = False
    linger_ms: int = 0

    def _left_out(self) -> tuple[str, ...]:
        known = {
            "acquired": bool(self.acquired),
            "lock_deadline_ms": self.lock_deadline_ms >= 0,
            "is_static": self.is_static,
            "linger_ms": self.linger_ms > 0,
        }
        return tuple(name for name, is_known in known.items() if not is_known)


@dataclass(frozen=True, slots=True)
class UnacquireRequest(_Request):
    """Records that the member never saw go back, their delivery attempts with them.

    `ranges` must all be held by the member. `acquired`, in their place, are ranges with the delivery counts that they
    were granted with: those go back that nothing has happened to since, whether they are still held or their locks have
    run out.
    """

    type: ClassVar[str] = UNACQUIRE

    _: KW_ONLY
    ranges: tuple[OffsetRange, ...] = ()
    acquired: tuple[AcquiredRange, ...] = ()

    def _left_out(self) -> tuple[str, ...]:
        return ("ranges",) if self.acquired else ("acquired",)


@dataclass(frozen=True, slots=True)
class ReleaseMemberRequest(_Request):
    """What the member holds goes back: it left, or its share session ended.

    `delivered` is what the member was sent of what it holds, None if that is not known (the rest never left the
    gateway, and gets its delivery attempt back); `requester`, where not "", is whose session with the member has ended:
    the row is ignored once the member has got records for another `reply_to`. `opened_ms` (-1: no) says instead that a
    session has been opened, and when: the row is ignored once the member has got records by a fetch of later.
    """

    type: ClassVar[str] = RELEASE_MEMBER

    _: KW_ONLY
    delivered: tuple[OffsetRange, ...] | None = None
    requester: str = ""
    opened_ms: int = -1

    def _left_out(self) -> tuple[str, ...]:
        if self.delivered is not None:
            return ("opened_ms",)
        return ("delivered", "requester") if self.opened_ms >= 0 else ("delivered", "requester", "opened_ms")


@dataclass(frozen=True, slots=True)
class FenceMemberRequest(_Request):
    """The process `incarnation_id` is the member from here on: requests of any other process of it are refused.

    `joined_ms` is when its join was appended; the row is passed over once a later one came. The group coordinator sends
    it before it answers the join.
    """

    type: ClassVar[str] = FENCE_MEMBER

    _: KW_ONLY
    joined_ms: int


@dataclass(frozen=True, slots=True)
class ConfigureRequest(_Request):
    """`config` is the group's effective config from here on (`GroupConfig.to_json`); `member_id` is "".

    The group coordinator sends it before it answers alter_configs. `altered_ms` is when that request was appended; the
    row is passed over once a later one came.
    """

    type: ClassVar[str] = CONFIGURE

    _: KW_ONLY
    config: Mapping[str, Any]
    altered_ms: int = 0


SharePartitionRequest = (
    FetchRequest | AcknowledgeRequest | UnacquireRequest | ReleaseMemberRequest | FenceMemberRequest | ConfigureRequest
)


def decode_share_partition_request(value: str) -> SharePartitionRequest:
    """Read a row of `__share_partition_requests`.

    Raises InvalidRequestRow (nobody to answer) or AnswerableError (INVALID_REQUEST to the requester).
    """
    row = answerable(json_object(value), SHARE_PARTITION_REQUESTS)
    return _DECODERS[row["type"]](row)


def _fetch(row: Mapping[str, Any]) -> FetchRequest:
    return FetchRequest(
        *_common(row),
        max_records=integer(row, "max_records", 1, MAX_INT32),
        max_wait_ms=integer(row, "max_wait_ms", 0, MAX_INT32),
        is_static=boolean(row, "is_static"),
        opened_ms=integer(row, "opened_ms", -1, MAX_OFFSET, default=-1),
        linger_ms=integer(row, "linger_ms", 0, MAX_INT32, default=0),
    )


def _acknowledge(row: Mapping[str, Any]) -> AcknowledgeRequest:
    return AcknowledgeRequest(
        *_common(row),
        batches=acknowledgement_batches(row),
        is_renew_ack=boolean(row, "is_renew_ack"),
        acquired=acquired_ranges(row, "acquired") if "acquired" in row else (),
        lock_deadline_ms=integer(row, "lock_deadline_ms", -1, MAX_OFFSET, default=-1),
        is_static=boolean(row, "is_static"),
        linger_ms=integer(row, "linger_ms", 0, MAX_INT32, default=0),
    )


def _unacquire(row: Mapping[str, Any]) -> UnacquireRequest:
    if "acquired" in row:
        return UnacquireRequest(*_common(row), acquired=acquired_ranges(row, "acquired"))
    return UnacquireRequest(*_common(row), ranges=offset_ranges(row, "ranges"))


def _release_member(row: Mapping[str, Any]) -> ReleaseMemberRequest:
    is_known = row.get("delivered") is not None  # nothing may have been delivered, which is not the same
    return ReleaseMemberRequest(
        *_common(row),
        delivered=offset_ranges(row, "delivered", may_be_empty=True) if is_known else None,
        requester=text(row, "requester", may_be_empty=True, default=""),
        opened_ms=integer(row, "opened_ms", -1, MAX_OFFSET, default=-1),
    )


def _fence_member(row: Mapping[str, Any]) -> FenceMemberRequest:
    text(row, "incarnation_id")  # which others may leave out
    return FenceMemberRequest(*_common(row), joined_ms=integer(row, "joined_ms", 0, MAX_OFFSET))


def _configure(row: Mapping[str, Any]) -> ConfigureRequest:
    altered_ms = integer(row, "altered_ms", 0, MAX_OFFSET, default=0)
    return ConfigureRequest(*_common(row), config=json_field(row, "config"), altered_ms=altered_ms)


def _common(row: Mapping[str, Any]) -> tuple[str, str, str, str, int, str, int, str, str | None]:
    """What every kind of row says."""
    partition = integer(row, "partition", 0, MAX_INT32)
    return (
        row["id"],
        text(row, "group_id"),
        text(row, "topic", max_length=MAX_TOPIC_NAME_LENGTH),
        text(row, "topic_id"),
        partition,
        member_id_of(row) if row["type"] != CONFIGURE else "",
        integer(row, "member_epoch", -1, MAX_INT32, default=-1),
        row["reply_to"],
        None if row.get("incarnation_id") is None else text(row, "incarnation_id"),
    )


_DECODERS: dict[str, Callable[[Mapping[str, Any]], SharePartitionRequest]] = {
    FETCH: _fetch,
    ACKNOWLEDGE: _acknowledge,
    UNACQUIRE: _unacquire,
    RELEASE_MEMBER: _release_member,
    FENCE_MEMBER: _fence_member,
    CONFIGURE: _configure,
}
SHARE_PARTITION_REQUESTS = tuple(_DECODERS)
