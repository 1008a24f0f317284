"""Read-ahead for one member in one share-partition: a buffer, and the demands (requests for records) that fill it.

No I/O, no clock. `credit` decides how many records to request. If a method returns the ranges that it has removed, the
caller must return them to the job.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.gateway.sessions.credit import Credit
from sharegroup.gateway.sessions.demands import FetchDemand, FetchDemands
from sharegroup.gateway.sessions.read_ahead_buffer import LockedRange, ReadableRanges, ReadAheadBuffer
from sharegroup.types import AcquiredRange, OffsetRange

#: Most ranges for one response. This limits the cost of encoding if redelivered records are scattered.
MAX_RANGES = 1_000
#: If a demand with `is_round` (see `FetchDemand`) has no response after this time (in ms), it was lost when the job
#: restarted. The demand is then sent again.
ROUND_LOST_AFTER_MS = 10_000


class ReadAhead:
    """The read-ahead of one member in one share-partition. All times are in ms.

    It decides when records are requested from the job and how many, and buffers the records that arrive. The arguments
    of the constructor are described in `Credit`; `lost_after_ms` is described in `FetchDemands`.
    """

    def __init__(
        self, max_records: int, lock_duration_ms: int, lost_after_ms: int, min_records: int = 0, linger_ms: int = 0
    ) -> None:
        self.credit = Credit(max_records, lock_duration_ms, min_records, linger_ms)
        self._demands = FetchDemands(lost_after_ms, ROUND_LOST_AFTER_MS)
        self._buffer = ReadAheadBuffer()
        self._is_waiting = False
        self._without_since_ms: int | None = None
        #: Set when the missing records of a partly acquired record batch are requested: the last offset of the batch
        #: that was acquired at that time. None before the first such request.
        self._rest_behind: int | None = None
        #: Whether a fetch waited when the newest records were requested. Only then can a fetch wait for the rest of
        #: their record batch. It is False if the records were read ahead, because the member must not wait longer than
        #: necessary. It is also False if they come from this gateway's reservation, because the gateway may assign the
        #: rest to another member.
        self._is_demanded = False

    @property
    def buffered(self) -> int:
        """The number of buffered records, which are ready to be sent."""
        return self._buffer.size

    @property
    def unanswered(self) -> list[str]:
        """The ids of the demands without a response."""
        return self._demands.unanswered

    @property
    def is_waiting(self) -> bool:
        """Whether a fetch of the client waits for records of this share-partition."""
        return self._is_waiting

    def has_waited(self, now_ms: int, for_ms: int) -> bool:
        """Return whether a fetch waits and the member has been without records for at least `for_ms`.

        This time begins with the first wait after the last delivery.
        """
        return self._is_waiting and self._without_since_ms is not None and now_ms - self._without_since_ms >= for_ms

    @property
    def _is_starved(self) -> bool:
        return self._is_waiting and not self.buffered

    # -- the client's side -----------------------------------------------------------------------------------------

    def ranges(self, most: int = MAX_RANGES) -> list[AcquiredRange]:
        """Return up to `most` ranges from the start of the buffer, in ascending order."""
        return self._buffer.ranges(most)

    def readable_ranges(self) -> ReadableRanges:
        """Return the first buffered ranges that have the same isolation level, for `slice_response`.

        The caller must have called `remove_expiring` before.
        """
        return self._buffer.readable_ranges(MAX_RANGES)

    def locked_ranges(self, ranges: Sequence[Sequence[int]]) -> list[LockedRange]:
        """Return the buffered parts of `ranges`, each with the end of its lock.

        Each of `ranges` begins with its first and last offset, and may have other fields.
        """
        return self._buffer.locked_ranges(ranges)

    def remove(self, acquired: Sequence[AcquiredRange], gaps: Sequence[OffsetRange], now_ms: int) -> int | None:
        """Remove ranges that are sent to the client (`acquired`) and offsets without a record (`gaps`) from the buffer.

        If ranges are sent, this also ends the wait of the client's fetch, and records the delivery in `credit`. Returns
        the time in ms at which the first lock of the sent ranges ends; None if nothing is sent.
        """
        self._buffer.remove(gaps)
        shortest = self._buffer.remove(acquired)
        if acquired:
            self._is_waiting, self._without_since_ms = False, None
            self.credit.record_delivery(sum(last - first + 1 for first, last, _ in acquired), now_ms)
        return shortest

    def begin_wait(self, now_ms: int) -> None:
        """Record that a fetch of the client waits, because the buffer is empty."""
        self._is_waiting = True
        if self._without_since_ms is None:
            self._without_since_ms = now_ms
        self.credit.record_empty_buffer(now_ms, self._demands.is_ahead)

    def end_wait(self) -> None:
        """Record that the client's fetch has ended, with or without records of this share-partition."""
        self._is_waiting = False

    # -- the job's side -----------------------------------------------------------------------------------------

    def records_to_request(self, now_ms: int, wanted: int | None = None, is_round: bool = False) -> int | None:
        """Return how many records to request from the job now; None if no request is needed.

        If the caller then sends a demand, it must call `record_demand`. `wanted` is MaxRecords of a fetch, or None if
        the call follows a response of the job. `is_round` is True if the fetch has MinBytes 0. Its demand waits at the
        job only briefly, and may replace a demand that waits for records.
        """
        if wanted is not None:
            self.credit.set_fetch_size(wanted, now_ms)
        if not self._demands.can_send(now_ms, is_round):
            return None
        return self.credit.records_to_request(self.buffered, self._is_starved, now_ms)

    def records_to_complete_batch(self, part: Sequence[AcquiredRange], rest: int, now_ms: int) -> int | None:
        """Return how many records to request so that the last record batch of `part` is acquired completely.

        `part` are acquired ranges that could be sent now. `rest` is the number of records that its last batch lacks.

        Returns 0 if the fetch must wait but no request is needed, because an open demand may return the rest. Returns
        None if the fetch need not wait, for one of these reasons:

        - The batch is complete.
        - Other members probably hold the rest.
        - The limits of the member do not allow the complete batch.
        - `part` was read ahead.
        """
        last_offset, records = part[-1].last_offset, sum(last - first + 1 for first, last, _ in part)
        if self._rest_behind == last_offset:
            return 0 if self._demands.is_standing else None
        may_send = self.credit.is_last_response_full and self.credit.can_send(records + rest, now_ms)
        if not rest or records < self.buffered or not may_send or not self._is_demanded:
            return None
        self._rest_behind = last_offset
        if self._demands.can_send(now_ms):
            return max(rest, self.credit.records_to_request(self.buffered, False, now_ms) or 0)
        return 0 if self._demands.is_standing else None

    def linger_ms(self, now_ms: int) -> int:
        """Return how long a demand that is sent now may wait at the job for other demands; 0 while a fetch waits."""
        return 0 if self._is_starved else self.credit.linger_ms(self.buffered, now_ms)

    def record_demand(
        self, demand_id: str, records: int, now_ms: int, linger_ms: int = 0, is_round: bool = False
    ) -> None:
        """Store the demand that was just sent to the job. It replaces the previous demand at the job.

        `is_round` is described at `FetchDemand`.
        """
        self._demands.add(FetchDemand(demand_id, now_ms, records, not self._is_starved, linger_ms, is_round))
        self.credit.record_demand()

    def record_failed_demand(self, demand_id: str, now_ms: int, retry_ms: int) -> None:
        """Delay the next demand by `retry_ms`, because the demand `demand_id` was rejected or could not be sent."""
        if self._demands.remove(demand_id) is not None:
            self._demands.pause_until(now_ms + retry_ms)

    def add_response(
        self,
        demand_id: str,
        ranges: Sequence[AcquiredRange],
        lock_deadline_ms: int,
        now_ms: int,
        read_committed: bool = False,
    ) -> bool:
        """Add records that the job acquired to the buffer.

        Returns False and changes nothing if the response is repeated or no longer expected.
        """
        demand = self._demands.remove(demand_id)
        if demand is None:
            return False
        self._is_demanded = not demand.is_ahead
        self._buffer.add(ranges, lock_deadline_ms, read_committed)
        self.credit.record_response(demand, sum(last - first + 1 for first, last, _ in ranges), now_ms)
        return True

    def add_assigned(
        self, ranges: Sequence[AcquiredRange], lock_deadline_ms: int, read_committed: bool = False
    ) -> None:
        """Add records that this gateway has assigned to the member from its reservation."""
        self._is_demanded = False
        self._buffer.add(ranges, lock_deadline_ms, read_committed)

    def mark_demand_lost(self) -> bool:
        """Regard the standing demand as lost, and return whether there was one. A late response is still accepted.

        Called when the job has restarted, or when the demand is cancelled.
        """
        was_standing = self._demands.is_standing
        self._demands.mark_lost()
        return was_standing

    # -- ranges to unacquire ---------------------------------------------------------------------------------------

    def remove_expiring(self, now_ms: int, min_left_ms: int) -> list[AcquiredRange]:
        """Remove and return the ranges whose locks end within `min_left_ms`. The caller must return them to the job.

        The result includes ranges whose locks have ended. The job has already made these available again, but has
        counted a delivery that did not take place. It corrects the delivery count when the ranges are returned.
        """
        due = self._buffer.remove_expiring(now_ms + min_left_ms)
        if due:
            self.credit.shrink()
        return due

    def remove_uncommitted(self) -> list[AcquiredRange]:
        """Remove and return all ranges that were acquired with read_uncommitted.

        Called when the group has been altered to read_committed. The caller must return the ranges to the job.
        """
        return self._buffer.remove_uncommitted()

    def remove_all(self) -> list[AcquiredRange]:
        """Remove and return all ranges, and stop read-ahead, because the member no longer fetches.

        The caller must return the ranges to the job.
        """
        self.credit.reset()
        return self._buffer.remove_last(self.buffered)

    def remove_spare(self, now_ms: int, keep_ms: int) -> list[AcquiredRange]:
        """Remove and return the ranges that the member will not consume within `keep_ms`, from the end of the buffer.

        Called when other members wait for records. The caller must return the ranges to the job. For the next
        `keep_ms`, there is no further read-ahead. Nothing is removed while a fetch of the member itself waits.
        """
        keep = self.credit.records_consumed_in(now_ms, keep_ms)
        if self._is_waiting or self.buffered <= keep:
            return []
        self.credit.restrict(keep, now_ms + keep_ms)
        return self._buffer.remove_last(self.buffered - keep)

    def close(self) -> list[AcquiredRange]:
        """Remove and return all ranges, and accept no responses to earlier demands.

        Called when the member's session has ended, or when the job has released all records of the member. The caller
        must return the ranges to the job unless the topic was deleted.
        """
        self._demands.clear()
        return self._buffer.remove_last(self.buffered)
