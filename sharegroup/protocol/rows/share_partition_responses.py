"""Responses to requests to a share-partition, and the notice that its records are wanted.

Data only; `response_rows` encodes and decodes them.
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.reservation_requests import RESERVE
from sharegroup.protocol.rows.share_partition_requests import ACKNOWLEDGE, FETCH, RELEASE_MEMBER, UNACQUIRE
from sharegroup.types import AcquiredRange

#: Type of a notice to a requester whose members have records while other members wait for some.
WANTED = "wanted"


@dataclass(frozen=True, slots=True)
class _Response:
    """Fields of all responses: those of the request, and its error (error code 0: none)."""

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
    """Response to a fetch.

    - `acquired`: the acquired ranges, ascending and disjoint
    - `lock_deadline_ms`: time when their locks expire, in milliseconds since the epoch (-1: no ranges)
    - `read_committed`: whether `acquired` must be read with isolation level read_committed
    - `delivery_count_limit`: `share.delivery.count.limit` of the group, or 0 if no record was delivered before
    """

    type: ClassVar[str] = FETCH

    _: KW_ONLY
    acquired: tuple[AcquiredRange, ...] = ()
    lock_deadline_ms: int = -1
    read_committed: bool = False
    delivery_count_limit: int = 0


@dataclass(frozen=True, slots=True)
class AcknowledgeResponse(_Response):
    """Response to an acknowledge.

    - `acquired`: the ranges whose locks were renewed, without finished records
    - `lock_deadline_ms`: time when these locks expire (-1: no ranges)
    - `renewals_off`: a renewal was rejected with INVALID_RECORD_STATE because the group does not allow renewals
    """

    type: ClassVar[str] = ACKNOWLEDGE

    _: KW_ONLY
    acquired: tuple[AcquiredRange, ...] = ()
    lock_deadline_ms: int = -1
    renewals_off: bool = False


@dataclass(frozen=True, slots=True)
class UnacquireResponse(_Response):
    """Response to an unacquire. Without an error, the member has none of the records."""

    type: ClassVar[str] = UNACQUIRE


@dataclass(frozen=True, slots=True)
class ReleaseMemberResponse(_Response):
    """Response to a release_member. Without an error, the records of the member are released."""

    type: ClassVar[str] = RELEASE_MEMBER


@dataclass(frozen=True, slots=True)
class ReserveResponse(_Response):
    """Response to a reserve.

    - `acquired`: all ranges that are reserved for the gateway in this epoch, ascending, with delivery count 0. Ranges
      of assignments that the job has not read yet are among them
    - `log_end_offset`: end of the log as the job knows it, -1 if unknown
    - `read_committed`: whether records must be read with isolation level read_committed
    - `retry_ms`: how long another request of the gateway would get nothing either, if nothing is reserved
    - `record_lock_duration_ms`, `static_record_lock_duration_ms`: duration of the locks of assigned records, for
      dynamic and for static members
    """

    type: ClassVar[str] = RESERVE

    _: KW_ONLY
    reservation_epoch: int = 0
    acquired: tuple[AcquiredRange, ...] = ()
    log_end_offset: int = -1
    read_committed: bool = False
    retry_ms: int = 0
    record_lock_duration_ms: int = 0
    static_record_lock_duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class WantedNotice(_Response):
    """Notice that members of other requesters wait for records of the share-partition.

    `id` and `member_id` are empty.
    """

    type: ClassVar[str] = WANTED


@dataclass(frozen=True, slots=True)
class SharePartitionRejection(_Response):
    """Response to a row of unknown type, with its `type`."""

    _: KW_ONLY
    type: str


SharePartitionResponse = (
    FetchResponse
    | AcknowledgeResponse
    | UnacquireResponse
    | ReleaseMemberResponse
    | ReserveResponse
    | WantedNotice
    | SharePartitionRejection
)
