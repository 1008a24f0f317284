"""Responses to requests for a share-partition, and the notice that members of other requesters wait for its records.

Data only; `response_rows` encodes and decodes the rows.
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.reservation_requests import RESERVE
from sharegroup.protocol.rows.share_partition_requests import ACKNOWLEDGE, FETCH, RELEASE_MEMBER, UNACQUIRE
from sharegroup.types import AcquiredRange

#: Type of the notice that members of other requesters wait. It is sent to a requester that holds records or reserved
#: offsets.
WANTED = "wanted"


@dataclass(frozen=True, slots=True)
class _Response:
    """Fields of all responses: fields copied from the request, and the error (code 0: no error)."""

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
    - `lock_deadline_ms`: the time at which the locks of these ranges expire, in ms since the epoch (-1: no ranges)
    - `read_committed`: whether the records must be read with isolation level read_committed
    - `delivery_count_limit`: the group's `share.delivery.count.limit`, or 0 if all records are delivered for the first
      time
    """

    type: ClassVar[str] = FETCH

    _: KW_ONLY
    acquired: tuple[AcquiredRange, ...] = ()
    lock_deadline_ms: int = -1
    read_committed: bool = False
    delivery_count_limit: int = 0


@dataclass(frozen=True, slots=True)
class AcknowledgeResponse(_Response):
    """Response to an acknowledge request.

    - `acquired`: the ranges whose locks were renewed, without records below the start offset
    - `lock_deadline_ms`: the time at which these locks expire, in milliseconds since the epoch (-1: no ranges)
    - `renewals_off`: whether the request was rejected because the group does not allow renewals
    """

    type: ClassVar[str] = ACKNOWLEDGE

    _: KW_ONLY
    acquired: tuple[AcquiredRange, ...] = ()
    lock_deadline_ms: int = -1
    renewals_off: bool = False


@dataclass(frozen=True, slots=True)
class UnacquireResponse(_Response):
    """Response to an unacquire request. If there is no error, the member no longer holds the records."""

    type: ClassVar[str] = UNACQUIRE


@dataclass(frozen=True, slots=True)
class ReleaseMemberResponse(_Response):
    """Response to a release_member request. It has no error even if no records were released.

    `ReleaseMemberRequest` describes when this happens.
    """

    type: ClassVar[str] = RELEASE_MEMBER


@dataclass(frozen=True, slots=True)
class ReserveResponse(_Response):
    """Response to a reserve request.

    - `acquired`: all ranges that are reserved for the gateway in this reservation epoch, ascending, with delivery
      count 0. Ranges are included even if the gateway has assigned them in rows that the job has not read yet.
    - `log_end_offset`: the last log end offset that the job has read, or -1 if it has not read one
    - `read_committed`: whether records must be read with isolation level read_committed
    - `retry_ms`: if `acquired` is empty, the time in ms after which the gateway may send the request again, else 0
    - `record_lock_duration_ms`: the lock duration for records that are assigned to dynamic members. Gateways of
      this version use the group's config instead, which may have changed since the response.
    - `static_record_lock_duration_ms`: the lock duration for records that are assigned to static members
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
    """Tells the receiver that members of other requesters wait for records of the share-partition.

    The receiver should return unprocessed records and unused reserved offsets. `id` and `member_id` are empty.
    """

    type: ClassVar[str] = WANTED


@dataclass(frozen=True, slots=True)
class SharePartitionRejection(_Response):
    """Error response to a row of unknown type, or of a type without a response. `type` is the type of this row."""

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
