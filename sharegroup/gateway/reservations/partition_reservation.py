"""The offsets of one share-partition that are reserved for this gateway. PURE: no clock, no I/O.

Theory of operation
-------------------
While members wait and there are no records, the gateway asks the job for a *slice*: the next offsets of the log, with a
lease. It uses each offset at most once, when its record has arrived. When half of the slice is used, or half of the
lease is over, it asks again, so that a steady stream never waits for the job.

    reserved       RRRRRRRRRRRRRRRR      of the newest response
    used           uuuuuu                assigned to members; their rows may be unread at the job
    log                  ......|         arrived and not used: assigned to the next member that waits

A response repeats what is reserved, including offsets whose `assign` rows the job had not read. So the gateway keeps
the offsets that it has used.

Epochs. A reservation ends without a response of the job: when its lease ends, when the group has no members for a while
(an administrator may have reset its offsets), or when the outcome of an append is unknown. The gateway then begins a
new epoch and discards everything. Rows of earlier epochs have no effect on a later reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sharegroup.protocol.range_map import RangeMap
from sharegroup.protocol.rows.reservation_requests import MAX_RESERVED_RECORDS
from sharegroup.protocol.rows.share_partition_responses import ReserveResponse
from sharegroup.types import OffsetRange

#: Duration of a lease. Offsets of a gateway that was killed are held back for this long.
LEASE_MS = 10_000
#: Records are not assigned in the last part of a lease, because the append must be within it.
LEASE_MARGIN_MS = 500
#: The smallest slice, for each waiting member and in all, and how long a slice should last at the observed rate.
RECORDS_PER_MEMBER, MIN_SLICE, SLICE_MS = 16, 32, 3_000
#: Pause after a failure.
FAILURE_PAUSE_MS = 1_000
#: A request whose response is this late was lost with the job.
LOST_AFTER_MS = 5_000


class PartitionReservation:
    """The reservation of one share-partition: what is reserved, and when to ask for how much. Times are in ms.

    `epochs` numbers the epochs of all reservations of this gateway, so that none is used twice.
    """

    def __init__(self, epochs: Iterator[int]) -> None:
        self._epochs = epochs
        self.epoch = next(epochs)
        self.read_committed = False
        self.record_lock_duration_ms = self.static_record_lock_duration_ms = 0
        #: The end of the log as the job knew it, from which the log is read; -1 if unknown.
        self.log_end_offset = -1
        self._reserved: RangeMap[None] = RangeMap()
        self._used: RangeMap[None] = RangeMap()
        self._slice = 0
        self._lease_end_ms = -1
        self._open_request: str | None = None
        self._asked_ms = self._not_before_ms = 0

    # -- requests ------------------------------------------------------------------------------------------------------

    def records_to_reserve(
        self, waiting: int, records_per_s: float, now_ms: int, lease_left_ms: int = LEASE_MS // 2
    ) -> int | None:
        """Return how many offsets to reserve now, or None. Call `record_request` after sending the row.

        `waiting` members wait, and this gateway has delivered `records_per_s` records of the share-partition of late.
        The lease is extended if at most `lease_left_ms` are left of it.
        """
        is_open = self._open_request is not None and now_ms < self._asked_ms + LOST_AFTER_MS
        if not waiting or is_open or now_ms < self._not_before_ms:
            return None
        wanted = max(MIN_SLICE, RECORDS_PER_MEMBER * waiting, round(records_per_s * SLICE_MS / 1000))
        wanted = min(wanted, MAX_RESERVED_RECORDS)
        is_half_used = 2 * self.unused_count <= min(wanted, self._slice or wanted)
        is_ending = self._lease_end_ms - now_ms <= lease_left_ms
        return wanted if is_half_used or is_ending else None

    def record_request(self, request_id: str, now_ms: int) -> None:
        """Record that a row was sent; one is open at a time."""
        self._open_request, self._asked_ms = request_id, now_ms

    def apply_response(self, response: ReserveResponse, now_ms: int) -> bool:
        """Apply a response. Return False and change nothing for one that is repeated, late or of an earlier epoch."""
        if response.id != self._open_request:
            return False
        self._open_request = None
        if response.error_code or response.reservation_epoch != self.epoch:
            self._not_before_ms = now_ms + FAILURE_PAUSE_MS
            return False
        self._reserved = RangeMap((first, last, None) for first, last, _ in response.acquired)
        if response.acquired:
            self._used = RangeMap(self._used.items(response.acquired[0].first_offset, None))
        else:
            self._used.clear()
            self._not_before_ms = now_ms + response.retry_ms
        for first, last, _ in self._used:
            self._reserved.discard(first, last)
        self._slice = self.unused_count
        self._lease_end_ms, self.log_end_offset = response.lock_deadline_ms, response.log_end_offset
        self.read_committed = response.read_committed
        self.record_lock_duration_ms = response.record_lock_duration_ms
        self.static_record_lock_duration_ms = response.static_record_lock_duration_ms
        return True

    def record_failure(self, request_id: str, now_ms: int) -> None:
        """Record that a row could not be appended."""
        if request_id == self._open_request:
            self._open_request = None
            self._not_before_ms = now_ms + FAILURE_PAUSE_MS

    def mark_request_lost(self) -> None:
        """Treat the open request as lost, because the job has restarted."""
        self._open_request = None

    # -- offsets -------------------------------------------------------------------------------------------------------

    @property
    def unused_count(self) -> int:
        """The number of offsets that are reserved and not used. May be called on another thread."""
        firsts, lasts, _ = self._reserved.columns()
        return sum(last - first + 1 for first, last in zip(firsts, lasts, strict=False))

    @property
    def may_hold(self) -> bool:
        """Whether offsets are reserved, or a request is open after which they may be."""
        return bool(self._reserved) or self._open_request is not None

    @property
    def lease_end_ms(self) -> int:
        """When the lease ends; -1 without a reservation. An assignment must be appended until then."""
        return self._lease_end_ms

    def assignable_ranges(self, end_offset: int, now_ms: int) -> list[OffsetRange]:
        """Return the offsets below `end_offset`, up to which the log has been read, that can be assigned now."""
        if now_ms + LEASE_MARGIN_MS >= self._lease_end_ms or end_offset <= 0:
            return []
        return [OffsetRange(first, last) for first, last, _ in self._reserved.items(None, end_offset - 1)]

    def use(self, ranges: Iterable[OffsetRange]) -> None:
        """Record that an `assign` row with these offsets was sent."""
        for first, last in ranges:
            self._reserved.discard(first, last)
            self._used.assign(first, last, None)

    def must_extend(self, now_ms: int) -> bool:
        """Return whether half of the lease of an unused reservation is over."""
        return bool(self._reserved) and 2 * (self._lease_end_ms - now_ms) <= LEASE_MS

    def is_over(self, now_ms: int) -> bool:
        """Return whether the lease of an unused reservation has ended."""
        return bool(self._reserved) and now_ms > self._lease_end_ms

    def begin_epoch(self) -> None:
        """Discard the reservation, whose state at the job is not known or which is given back."""
        self.epoch = next(self._epochs)
        self._reserved.clear()
        self._used.clear()
        self._open_request, self._lease_end_ms, self._slice = None, -1, 0
