"""Rows of `__share_partition_requests` with which a gateway reserves offsets and assigns them to its members.

A *reservation epoch* distinguishes the reservations of a gateway in a share-partition over time. The gateway counts it
up when its reservation has ended, or may have ended without its knowledge. Data and checks only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from sharegroup.protocol.rows.row_fields import MAX_INT32, MAX_OFFSET, integer, offset_ranges, text
from sharegroup.protocol.rows.share_partition_row import PartitionRequest, row_header
from sharegroup.types import OffsetRange

RESERVE = "reserve"
ASSIGN = "assign"
UNRESERVE = "unreserve"

#: The maximum number of records of one request.
MAX_RESERVED_RECORDS = 5_000
#: The maximum duration of a gateway's lease in ms, which a restarted job assumes for each gateway.
MAX_LEASE_MS = 10_000


@dataclass(frozen=True, slots=True)
class ReserveRequest(PartitionRequest):
    """Request to hold at least `records` reserved offsets for the gateway `reply_to`, whose lease it extends.

    The lease then lasts for at least `lease_ms`. The request is answered at once, with all that is reserved for the
    gateway. That may be nothing, if records can be acquired or if members of others wait. `member_id` is empty. The row
    ends the gateway's reservations of earlier epochs.
    """

    type: ClassVar[str] = RESERVE

    _: KW_ONLY
    records: int
    lease_ms: int
    reservation_epoch: int


@dataclass(frozen=True, slots=True)
class AssignRequest(PartitionRequest):
    """Notice that the gateway `requester` delivers reserved offsets to the member, with locks from this row's append.

    The gateway sends the records once the row is durable, and only if it was appended by `valid_until_ms`: while the
    lease and the session of the member last. A row that was appended later has no effect, so both decide the same. The
    locks last for `lock_duration_ms`, the duration that the response to the reserve row named.
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
    """Notice that the gateway `requester` does not use `ranges`, or anything that it reserved (None).

    `member_id` is empty. Offsets that are not reserved for the gateway in this epoch are skipped.
    """

    type: ClassVar[str] = UNRESERVE

    _: KW_ONLY
    ranges: tuple[OffsetRange, ...] | None
    requester: str
    reservation_epoch: int

    def _omitted_fields(self) -> tuple[str, ...]:
        return ("ranges",) if self.ranges is None else ()


ReservationRequest = ReserveRequest | AssignRequest | UnreserveRequest


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


def _epoch(row: Mapping[str, Any]) -> int:
    return integer(row, "reservation_epoch", 0, MAX_INT32)


DECODERS: Mapping[str, Callable[[Mapping[str, Any]], ReservationRequest]] = {
    RESERVE: _reserve,
    ASSIGN: _assign,
    UNRESERVE: _unreserve,
}
