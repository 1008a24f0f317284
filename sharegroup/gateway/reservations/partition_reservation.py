"""The offsets of one share-partition that are reserved for this gateway. No clock, no I/O.

Theory of operation
-------------------
While members wait and there are no records, the gateway requests a *slice* from the job: the next offsets of the log.
It assigns each offset at most once, when the record has arrived. When half of the slice is used, it requests more, so
that members do not wait for the job while records arrive steadily. If the job responds slowly, slices are longer.

    reserved       RRRRRRRRRRRRRRRR      in the newest response
    used           uuuuuu                assigned to members; the job may not have read the `assign` rows yet
    log                  ......|         arrived but not used: assigned to the next member that waits

A response contains all reserved offsets, including used ones whose `assign` rows the job has not read yet. Therefore
the gateway stores the offsets that it has used.

Epochs. Whenever the gateway returns a reservation to the job, it begins a new epoch. Rows of earlier epochs have no
effect on a later reservation. The gateway returns a reservation that it does not need. It also returns a reservation
that it must no longer use, for one of these reasons:

- The gateway's lease has ended (`gateway_lease`).
- The group was without a member for a while. An administrator may have reset its offsets in this time.
- It is unknown whether a row that assigns offsets was appended in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sharegroup.protocol.range_map import RangeMap
from sharegroup.protocol.rows.reservation_requests import MAX_RESERVED_RECORDS
from sharegroup.protocol.rows.share_partition_responses import ReserveResponse
from sharegroup.types import OffsetRange

#: A slice (the offsets of one request) has at least this many offsets for each waiting member, and at least this many
#: in total.
RECORDS_PER_MEMBER, MIN_SLICE = 16, 32
#: At the observed rate, a slice should last for at least this many ms, and for at least this many response times of the
#: job. Half of the slice must last until the next slice arrives, even if micro-batches are slow.
SLICE_MS, SLICE_RESPONSES = 3_000, 4
#: Pause before the next request after a failure.
FAILURE_PAUSE_MS = 1_000
#: After this time without a response, another request is sent, because the response may be lost. A late response is
#: still applied.
LOST_AFTER_MS = 5_000


class PartitionReservation:
    """Stores the reserved offsets of one share-partition, and decides when to request more. Times are in ms.

    Each epoch of the reservation (see the module's docstring) has a number, the next one from `epochs`. The
    reservations of this gateway in all share-partitions use the same iterator, so that no number is used twice.
    """

    def __init__(self, epochs: Iterator[int]) -> None:
        self._epochs = epochs
        self.epoch = next(epochs)
        self.read_committed = False
        #: The log end offset in the job's response, from which the gateway reads the log; -1 if unknown.
        self.log_end_offset = -1
        self._reserved: RangeMap[None] = RangeMap()
        self._used: RangeMap[None] = RangeMap()
        self._slice = 0
        #: The number of offsets that are reserved but not used. May be read on another thread.
        self.unused_count = 0
        #: {id of a request without a response: time at which it was sent}, oldest first. The time is None if the
        #: response may never come. The job may have applied such a request nevertheless.
        self._requests: dict[str, int | None] = {}
        self._not_before_ms = self._response_ms = 0

    # -- requests ------------------------------------------------------------------------------------------------------

    def records_to_reserve(self, waiting: int, records_per_s: float, now_ms: int) -> int | None:
        """Return how many offsets to reserve now; None if no request is needed or allowed.

        If the caller then sends a request, it must call `record_request`. `waiting` is the number of members that wait.
        `records_per_s` is the rate at which this gateway has recently delivered records of the share-partition.
        """
        if not waiting or not self.may_request(now_ms):
            return None
        slice_ms = max(SLICE_MS, SLICE_RESPONSES * self._response_ms)
        wanted = max(MIN_SLICE, RECORDS_PER_MEMBER * waiting, round(records_per_s * slice_ms / 1000))
        wanted = min(wanted, MAX_RESERVED_RECORDS)
        is_half_used = 2 * self.unused_count <= min(wanted, self._slice or wanted)
        return wanted if is_half_used else None

    @property
    def is_ample(self) -> bool:
        """Whether no offsets are needed: more than half of the last slice is unused, and no response is outstanding."""
        return 2 * self.unused_count > self._slice > 0 and not self._requests

    def may_request(self, now_ms: int) -> bool:
        """Return whether more offsets may be requested now.

        Three conditions must be true. At least half of the last slice (the offsets of one request) is used. No request
        was sent in the last `LOST_AFTER_MS` whose response is still expected. The pause after a failure has ended.
        """
        if 2 * self.unused_count > self._slice > 0 or now_ms < self._not_before_ms:
            return False
        return all(sent_ms is None or now_ms >= sent_ms + LOST_AFTER_MS for sent_ms in self._requests.values())

    def record_request(self, request_id: str, now_ms: int) -> None:
        """Record that a row that requests offsets was sent."""
        self._requests[request_id] = now_ms

    def apply_response(self, response: ReserveResponse, now_ms: int) -> bool:
        """Apply the job's response to a request for offsets. Return whether it was applied.

        A repeated or outdated response is not applied. An error or a response of an earlier epoch is not applied
        either, and delays the next request by `FAILURE_PAUSE_MS`.
        """
        if response.id not in self._requests:
            return False
        sent_ms = self._requests[response.id]
        if sent_ms is not None:
            self._response_ms = now_ms - sent_ms
        if response.error_code or response.reservation_epoch != self.epoch:
            # It does not say which offsets are reserved, so the job may still hold some for an earlier request.
            del self._requests[response.id]
            self._not_before_ms = now_ms + FAILURE_PAUSE_MS
            return False
        self._remove_requests_until(response.id)  # a response to an earlier request would be older
        self._reserved = RangeMap((first, last, None) for first, last, _ in response.acquired)
        if response.acquired:
            self._used = RangeMap(self._used.items(response.acquired[0].first_offset, None))
        else:
            self._used.clear()
            self._not_before_ms = now_ms + response.retry_ms
        for first, last, _ in self._used:
            self._reserved.discard(first, last)
        self._slice = self.unused_count = _count(self._reserved)
        self.log_end_offset = response.log_end_offset
        self.read_committed = response.read_committed
        return True

    def record_failure(self, request_id: str, now_ms: int) -> None:
        """Record that the append of a request has failed, and delay the next request by `FAILURE_PAUSE_MS`.

        The row may be in the request topic nevertheless. If the job then responds, the response is applied.
        """
        if request_id in self._requests:
            self._requests[request_id] = None
            self._not_before_ms = now_ms + FAILURE_PAUSE_MS

    def expect_no_response(self) -> None:
        """Allow the next request although responses are missing, because the job has restarted.

        The job may still read and apply the previous requests.
        """
        self._requests = dict.fromkeys(self._requests)

    def _remove_requests_until(self, request_id: str) -> None:
        """Remove a request and all earlier ones."""
        ids = list(self._requests)
        for earlier_id in ids[: ids.index(request_id) + 1]:
            del self._requests[earlier_id]

    # -- offsets -------------------------------------------------------------------------------------------------------

    @property
    def may_hold(self) -> bool:
        """Whether the job may hold reserved offsets: some are unused, or a request for offsets has no response."""
        return bool(self._reserved or self._requests)

    def assignable_ranges(self, end_offset: int) -> list[OffsetRange]:
        """Return the unused reserved offsets below `end_offset`, the offset up to which the log has been read."""
        if end_offset <= 0:
            return []
        return [OffsetRange(first, last) for first, last, _ in self._reserved.items(None, end_offset - 1)]

    def is_behind(self, end_offset: int) -> bool:
        """Return whether the next record of the log will be before all unused reserved offsets.

        This gateway cannot assign such a record. `end_offset` is the offset of the next record; 0 if it is unknown. The
        result is False if `end_offset` is unknown or there are no unused reserved offsets.
        """
        first_offset = self._reserved.first_offset
        return first_offset is not None and 0 < end_offset < first_offset

    def use(self, ranges: Iterable[OffsetRange]) -> None:
        """Mark offsets as used, because a row that assigns them was sent."""
        for first, last in ranges:
            self._reserved.discard(first, last)
            self._used.assign(first, last, None)
        self.unused_count = _count(self._reserved)

    def begin_epoch(self) -> None:
        """Begin a new epoch without offsets.

        The caller has returned the offsets of the previous epoch to the job, or does not know their state.
        """
        self.epoch = next(self._epochs)
        self._reserved.clear()
        self._used.clear()
        self._requests.clear()
        self._slice = self.unused_count = 0


def _count(ranges: RangeMap[None]) -> int:
    return sum(last - first + 1 for first, last, _ in ranges)
