"""Rows of the response topic about one share-partition: the answer to each kind of request, and word that its records
are wanted. Data only; `response_rows` reads and writes them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_partition_requests import ACKNOWLEDGE, FETCH, RELEASE_MEMBER, UNACQUIRE
from sharegroup.types import AcquiredRange

#: Type of a row that answers nothing: members of others wait for records while this requester's hold some.
WANTED = "wanted"


@dataclass(frozen=True, slots=True)
class _Response:
    """What every kind says: what it answers, and what that was refused for (error code 0: it was carried out)."""

    id: str
    reply_to: str
    group_id: str
    topic: str
    topic_id: str
    partition: int
    member_id: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class FetchResponse(_Response):
    """`acquired` are the ranges that the member got, ascending and disjoint; `lock_deadline_ms` is when their locks
    end, in milliseconds since the epoch (-1: there are none). `read_committed` tells that the group reads committed
    records only: so are `acquired` to be read. `delivery_count_limit` is the group's `share.delivery.count.limit`, or 0
    if no record of `acquired` was delivered before."""

    type: ClassVar[str] = FETCH

    _: KW_ONLY
    acquired: tuple[AcquiredRange, ...] = ()
    lock_deadline_ms: int = -1
    read_committed: bool = False
    delivery_count_limit: int = 0


@dataclass(frozen=True, slots=True)
class AcknowledgeResponse(_Response):
    """`acquired` are the ranges whose locks were renewed, which passes over what is finished; `lock_deadline_ms` is
    when they end now (-1: there are none). `renewals_off` tells why a renewal was refused with INVALID_RECORD_STATE:
    the group allows none."""

    type: ClassVar[str] = ACKNOWLEDGE

    _: KW_ONLY
    acquired: tuple[AcquiredRange, ...] = ()
    lock_deadline_ms: int = -1
    renewals_off: bool = False


@dataclass(frozen=True, slots=True)
class UnacquireResponse(_Response):
    """What was to go back is back, or was not the member's."""

    type: ClassVar[str] = UNACQUIRE


@dataclass(frozen=True, slots=True)
class ReleaseMemberResponse(_Response):
    """What the member held is released."""

    type: ClassVar[str] = RELEASE_MEMBER


@dataclass(frozen=True, slots=True)
class WantedNotice(_Response):
    """Members of others wait for records of the share-partition; `id` and `member_id` are ""."""

    type: ClassVar[str] = WANTED


@dataclass(frozen=True, slots=True)
class SharePartitionRefusal(_Response):
    """The answer to a row that is of no kind; `type` is what it said."""

    _: KW_ONLY
    type: str


SharePartitionResponse = (
    FetchResponse
    | AcknowledgeResponse
    | UnacquireResponse
    | ReleaseMemberResponse
    | WantedNotice
    | SharePartitionRefusal
)
