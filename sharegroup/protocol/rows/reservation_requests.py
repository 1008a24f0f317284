"""Rows of `__share_partition_requests` with which a gateway delivers records without waiting for the job.

The gateway reserves offsets and assigns them to its members, and it passes released records on to other members. The
reservations of a gateway in a share-partition have a *reservation epoch*. The gateway begins a new epoch with a higher
number when its reservations there have ended, or when it does not know whether they have ended. Data and checks only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from sharegroup.protocol.rows.row_fields import MAX_INT32, MAX_OFFSET, acquired_ranges, integer, offset_ranges, text
from sharegroup.protocol.rows.share_partition_row import PartitionRequest, row_header
from sharegroup.types import AcquiredRange, OffsetRange

RESERVE = "reserve"
ASSIGN = "assign"
UNRESERVE = "unreserve"
REASSIGN = "reassign"

#: The maximum number of records in one reserve request.
MAX_RESERVED_RECORDS = 5_000
#: The maximum duration of a lease, which is the time for which a gateway holds its reserved offsets, in ms. A restarted
#: job assumes this duration for each gateway.
MAX_LEASE_MS = 10_000


@dataclass(frozen=True, slots=True)
class ReserveRequest(PartitionRequest):
    """Request to reserve offsets, so that the gateway `reply_to` holds at least `records` reserved offsets.

    The job responds in the micro-batch that reads the row, with all offsets that are reserved for the gateway. At the
    limit on record locks, it reserves fewer offsets. It reserves no new offsets in these cases:
    - There are records that a fetch can acquire.
    - A fetch without `reserves` is waiting.
    - The topic has no topic id.
    - The job does not have the log offsets of the partition yet.

    The gateway then holds its reserved offsets for at least `lease_ms`, the duration of its lease. The row also ends
    the gateway's reservations of earlier reservation epochs. `member_id` is empty.
    """

    type: ClassVar[str] = RESERVE

    _: KW_ONLY
    records: int
    lease_ms: int
    reservation_epoch: int


@dataclass(frozen=True, slots=True)
class AssignRequest(PartitionRequest):
    """Tells the job that the gateway `requester` delivers reserved offsets to the member.

    Until `valid_until_ms`, the reservations of the gateway and the session of the member are certainly valid. The
    gateway sends the records only if the row was appended by this time. The job ignores a row that was appended later,
    so both treat the row in the same way. The locks start at the append of the row and last for `lock_duration_ms`,
    which is one of the two lock durations in the `ReserveResponse`.
    """

    type: ClassVar[str] = ASSIGN

    _: KW_ONLY
    ranges: tuple[OffsetRange, ...]
    requester: str
    reservation_epoch: int
    lock_duration_ms: int
    valid_until_ms: int


@dataclass(frozen=True, slots=True)
class UnreserveRequest(PartitionRequest):
    """Tells the job that the gateway `requester` returns reserved offsets without using them.

    `ranges` are the returned offsets. Those that are not reserved for the gateway in `reservation_epoch` are skipped.
    None returns all offsets that are reserved for the gateway in this epoch. It also cancels the gateway's reserve
    requests in the same micro-batch. `member_id` is empty.
    """

    type: ClassVar[str] = UNRESERVE

    _: KW_ONLY
    ranges: tuple[OffsetRange, ...] | None
    requester: str
    reservation_epoch: int

    def _omitted_fields(self) -> tuple[str, ...]:
        return ("ranges",) if self.ranges is None else ()


@dataclass(frozen=True, slots=True)
class ReassignRequest(PartitionRequest):
    """Tells the job that `member_id` released records, and that the gateway `requester` sends them to a waiting member.

    - `acquired`: the released ranges, with the delivery counts of the released deliveries. The new deliveries have
      counts that are one higher.
    - `to_member_id`: the member that receives the records. It may be the member that released them.
    - `to_incarnation_id`: the client process of that member if it is static (KIP-345), else None.
    - `valid_until_ms`: the locks of the records and the sessions of both members do not expire before this time. If the
      row is appended later, the gateway does not send the records, and the job ignores the row.
    - `lock_duration_ms`: the duration of the new locks, which start at the append of the row.
    """

    type: ClassVar[str] = REASSIGN

    _: KW_ONLY
    acquired: tuple[AcquiredRange, ...]
    to_member_id: str
    requester: str
    lock_duration_ms: int
    valid_until_ms: int
    to_incarnation_id: str | None = None

    def _omitted_fields(self) -> tuple[str, ...]:
        return ("to_incarnation_id",) if self.to_incarnation_id is None else ()


ReservationRequest = ReserveRequest | AssignRequest | UnreserveRequest | ReassignRequest


def _reserve(row: Mapping[str, Any]) -> ReserveRequest:
    text(row, "reply_to")  # required here, optional in other rows
    return ReserveRequest(
        *row_header(row, has_member=False),
        records=integer(row, "records", 1, MAX_RESERVED_RECORDS),
        lease_ms=integer(row, "lease_ms", 1, MAX_LEASE_MS),
        reservation_epoch=_epoch(row),
    )


def _assign(row: Mapping[str, Any]) -> AssignRequest:
    return AssignRequest(
        *row_header(row),
        ranges=offset_ranges(row, "ranges"),
        requester=text(row, "requester"),
        reservation_epoch=_epoch(row),
        lock_duration_ms=integer(row, "lock_duration_ms", 1, MAX_INT32),
        valid_until_ms=integer(row, "valid_until_ms", 0, MAX_OFFSET),
    )


def _unreserve(row: Mapping[str, Any]) -> UnreserveRequest:
    return UnreserveRequest(
        *row_header(row, has_member=False),
        ranges=None if row.get("ranges") is None else offset_ranges(row, "ranges"),
        requester=text(row, "requester"),
        reservation_epoch=_epoch(row),
    )


def _reassign(row: Mapping[str, Any]) -> ReassignRequest:
    return ReassignRequest(
        *row_header(row),
        acquired=acquired_ranges(row, "acquired"),
        to_member_id=text(row, "to_member_id"),
        requester=text(row, "requester"),
        lock_duration_ms=integer(row, "lock_duration_ms", 1, MAX_INT32),
        valid_until_ms=integer(row, "valid_until_ms", 0, MAX_OFFSET),
        to_incarnation_id=None if row.get("to_incarnation_id") is None else text(row, "to_incarnation_id"),
    )


def _epoch(row: Mapping[str, Any]) -> int:
    return integer(row, "reservation_epoch", 0, MAX_INT32)


DECODERS: Mapping[str, Callable[[Mapping[str, Any]], ReservationRequest]] = {
    RESERVE: _reserve,
    ASSIGN: _assign,
    UNRESERVE: _unreserve,
    REASSIGN: _reassign,
}
