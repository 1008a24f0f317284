"""Rows of `__share_partition_requests`: JSON objects, each with one request for one share-partition.

The key of a row names its share-partition. All requests for a share-partition are therefore in one Kafka partition and
keep their order. Only fence_member rows have another key, and are written to every Kafka partition. Each type of row
has a class. `decode_share_partition_request` returns an instance of this class. The topic also contains renew_leases
rows, which are in the module `lease_requests`. Data and checks only.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeVar

from sharegroup.protocol.rows import reservation_requests
from sharegroup.protocol.rows.broadcasts import BROADCAST_KEY
from sharegroup.protocol.rows.reservation_requests import ReservationRequest
from sharegroup.protocol.rows.row_fields import (
    MAX_INT32,
    MAX_OFFSET,
    acknowledgement_batches,
    acquired_ranges,
    boolean,
    check_header,
    integer,
    json_field,
    json_object,
    offset_ranges,
    text,
)
from sharegroup.protocol.rows.share_partition_row import PartitionRequest, row_header
from sharegroup.types import AcknowledgementBatch, AcquiredRange, OffsetRange

T = TypeVar("T")

#: Maximum number of ranges or acknowledgement batches in one row. The row must fit into a Kafka message.
MAX_RANGES_PER_ROW = 5_000

FETCH = "fetch"
ACKNOWLEDGE = "acknowledge"
UNACQUIRE = "unacquire"
RELEASE_MEMBER = "release_member"
FENCE_MEMBER = "fence_member"
CONFIGURE = "configure"


def split_into_rows(ranges: Sequence[T], most: int) -> Iterator[tuple[T, ...]]:
    for first in range(0, len(ranges), most):
        yield tuple(ranges[first : first + most])


@dataclass(frozen=True, slots=True)
class FetchRequest(PartitionRequest):
    """Request to acquire up to `max_records` records. It waits for records until `max_wait_ms` after its append.

    - `max_records`: the maximum number of records. 0 cancels the waiting fetch that `reply_to` has sent for the member:
      both fetches get an empty response.
    - `is_static`: whether the member is static (KIP-345). Its locks last longer, so that they outlast a restart of the
      member.
    - `opened_ms`: the time at which the member's share session was opened, if this is the first fetch of the session,
      else -1. If the time is set, the job first releases all records of the member, because a process with a new
      session has none of them. This fetch can acquire the released records before other fetches. The job ignores the
      field if a request that was appended at or after `opened_ms` has already acquired records for the member.
    - `linger_ms`: the maximum time for which the job may delay reading the row, to read several rows together. The
      member does not need new records during this time.
    - `reserves`: whether the fetch is from a gateway that also sends reserve requests for its members. While a fetch
      without `reserves` waits, the job reserves no offsets, because only gateways can use reserved offsets.
    """

    type: ClassVar[str] = FETCH

    _: KW_ONLY
    max_records: int
    max_wait_ms: int = 0
    is_static: bool = False
    opened_ms: int = -1
    linger_ms: int = 0
    reserves: bool = False


@dataclass(frozen=True, slots=True)
class AcknowledgeRequest(PartitionRequest):
    """Request to acknowledge `batches`, or to renew their locks.

    - `acquired`: the acquired ranges that are acknowledged, with their delivery counts. If a record has another
      delivery count now, the request is rejected. If `acquired` is empty, delivery counts are not checked.
    - `lock_deadline_ms`: the earliest time at which a lock of these records expires, as the requester has received it
      (-1: not known). If the row was appended after this time and contains records below the start offset, it is
      rejected, because another member may have finished these records.
    - `is_static`: whether renewed locks get the longer duration of static members
    - `linger_ms`: the maximum time for which the job may delay reading the row, to read several rows together. The
      delay ends early if a member waits for records that this row may release.
    """

    type: ClassVar[str] = ACKNOWLEDGE

    _: KW_ONLY
    batches: tuple[AcknowledgementBatch, ...]
    is_renew_ack: bool = False
    acquired: tuple[AcquiredRange, ...] = ()
    lock_deadline_ms: int = -1
    is_static: bool = False
    linger_ms: int = 0


@dataclass(frozen=True, slots=True)
class UnacquireRequest(PartitionRequest):
    """Request to return acquired records that the member never received. Their delivery is not counted.

    The request has either `ranges` or `acquired`. If the member does not hold all records of `ranges`, the request is
    rejected. `acquired` contains acquired ranges with their delivery counts. A record of `acquired` is returned if the
    member still holds it. It is also returned if the member was the last to hold it, and lost it because the lock
    expired or the member left. All other records of `acquired` are skipped.
    """

    type: ClassVar[str] = UNACQUIRE

    _: KW_ONLY
    ranges: tuple[OffsetRange, ...] = ()
    acquired: tuple[AcquiredRange, ...] = ()

    def _omitted_fields(self) -> tuple[str, ...]:
        return ("ranges",) if self.acquired else ("acquired",)


@dataclass(frozen=True, slots=True)
class ReleaseMemberRequest(PartitionRequest):
    """Request to release all records of a member that left or whose share session ended.

    The row is ignored if the member has acquired records with a later member epoch.

    - `delivered`: the ranges that were sent to the member, or None if this is not known. The delivery of other acquired
      records is not counted, because they never left the gateway. If None, all acquired records count as delivered.
    - `requester`: the `reply_to` of the gateway whose session with the member ended, or empty. If it is set, no
      records are released while the member has a session with another gateway through which it has acquired records.
      If it is set and the job has stored no acquisition through this gateway (after a start without a checkpoint), it
      releases only the ranges `delivered`.
    - `opened_ms`: if the member has opened a new session, the time of opening, else -1. The row is ignored if a request
      that was appended at or after this time has already acquired records for the member.
    """

    type: ClassVar[str] = RELEASE_MEMBER

    _: KW_ONLY
    delivered: tuple[OffsetRange, ...] | None = None
    requester: str = ""
    opened_ms: int = -1

    def _omitted_fields(self) -> tuple[str, ...]:
        if self.delivered is not None:
            return ("opened_ms",)
        requester = () if self.requester else ("requester",)
        return ("delivered", *requester) if self.opened_ms >= 0 else ("delivered", *requester, "opened_ms")


@dataclass(frozen=True, slots=True)
class FenceMemberRequest(PartitionRequest):
    """Tells the job that the process `incarnation_id` now acts as the member.

    Later requests of other processes are rejected.

    `joined_ms` is the append time of the heartbeat with which this process joined. If a notice with a later time was
    processed before, this notice is ignored. The group coordinator sends the row to every partition of the request
    topic, before the response to the join. One partition is not sufficient: the member's processes may use different
    partitioners or numbers of partitions, so that they write to different partitions of the topic.
    """

    type: ClassVar[str] = FENCE_MEMBER

    _: KW_ONLY
    joined_ms: int

    @property
    def kafka_key(self) -> bytes:
        """The record key. It marks a row that is written to every partition."""
        return BROADCAST_KEY.encode()


@dataclass(frozen=True, slots=True)
class ConfigureRequest(PartitionRequest):
    """Notice to a share-partition of its group's new effective config (`GroupConfig.to_json`). `member_id` is empty.

    The group coordinator sends the row before the response to alter_configs. `altered_ms` is the append time of the
    alter_configs request. If a notice with a later time was processed before, this notice is ignored.
    """

    type: ClassVar[str] = CONFIGURE

    _: KW_ONLY
    config: Mapping[str, Any]
    altered_ms: int = 0


SharePartitionRequest = (
    FetchRequest
    | AcknowledgeRequest
    | UnacquireRequest
    | ReleaseMemberRequest
    | FenceMemberRequest
    | ConfigureRequest
    | ReservationRequest
)


def decode_share_partition_request(value: str) -> SharePartitionRequest:
    """Decode a row of `__share_partition_requests`.

    Raises InvalidFieldError (INVALID_REQUEST) for an invalid row, or InvalidRequestRow if no response is possible.
    """
    row = check_header(json_object(value), SHARE_PARTITION_REQUESTS)
    return _DECODERS[row["type"]](row)


def _fetch(row: Mapping[str, Any]) -> FetchRequest:
    return FetchRequest(
        *row_header(row),
        max_records=integer(row, "max_records", 0, MAX_INT32),
        max_wait_ms=integer(row, "max_wait_ms", 0, MAX_INT32),
        is_static=boolean(row, "is_static"),
        opened_ms=integer(row, "opened_ms", -1, MAX_OFFSET, default=-1),
        linger_ms=integer(row, "linger_ms", 0, MAX_INT32, default=0),
        reserves=boolean(row, "reserves"),
    )


def _acknowledge(row: Mapping[str, Any]) -> AcknowledgeRequest:
    return AcknowledgeRequest(
        *row_header(row),
        batches=acknowledgement_batches(row),
        is_renew_ack=boolean(row, "is_renew_ack"),
        acquired=acquired_ranges(row, "acquired") if "acquired" in row else (),
        lock_deadline_ms=integer(row, "lock_deadline_ms", -1, MAX_OFFSET, default=-1),
        is_static=boolean(row, "is_static"),
        linger_ms=integer(row, "linger_ms", 0, MAX_INT32, default=0),
    )


def _unacquire(row: Mapping[str, Any]) -> UnacquireRequest:
    if "acquired" in row:
        return UnacquireRequest(*row_header(row), acquired=acquired_ranges(row, "acquired"))
    return UnacquireRequest(*row_header(row), ranges=offset_ranges(row, "ranges"))


def _release_member(row: Mapping[str, Any]) -> ReleaseMemberRequest:
    is_known = row.get("delivered") is not None  # an empty list means that nothing was delivered
    return ReleaseMemberRequest(
        *row_header(row),
        delivered=offset_ranges(row, "delivered", may_be_empty=True) if is_known else None,
        requester=text(row, "requester", may_be_empty=True, default=""),
        opened_ms=integer(row, "opened_ms", -1, MAX_OFFSET, default=-1),
    )


def _fence_member(row: Mapping[str, Any]) -> FenceMemberRequest:
    text(row, "incarnation_id")  # required here, optional in other rows
    return FenceMemberRequest(*row_header(row), joined_ms=integer(row, "joined_ms", 0, MAX_OFFSET))


def _configure(row: Mapping[str, Any]) -> ConfigureRequest:
    altered_ms = integer(row, "altered_ms", 0, MAX_OFFSET, default=0)
    return ConfigureRequest(*row_header(row, has_member=False), config=json_field(row, "config"), altered_ms=altered_ms)


_DECODERS: dict[str, Callable[[Mapping[str, Any]], SharePartitionRequest]] = {
    FETCH: _fetch,
    ACKNOWLEDGE: _acknowledge,
    UNACQUIRE: _unacquire,
    RELEASE_MEMBER: _release_member,
    FENCE_MEMBER: _fence_member,
    CONFIGURE: _configure,
    **reservation_requests.DECODERS,
}
SHARE_PARTITION_REQUESTS = tuple(_DECODERS)
