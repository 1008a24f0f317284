"""How much a gateway asks the job for on behalf of one member at one share-partition. No I/O, no clock.

An answer of the job takes a micro-batch, a fetch of a client a millisecond, so the gateway acquires more than a
fetch wants and serves the next ones from its buffer. That is credit, bounded by what the member is known to do:

- The first demand is what the client's own fetch wants (MaxRecords), or `min_records` if that is more, and so is every
  one of a member that is not known to come back soon. Only then is there read-ahead: when what it takes in a third of
  the lock duration is more than that.
- `target` is what the buffer and the demand that stands should hold together. A demand is sent when less than half of
  it is left. When demands come back full, and the buffer runs dry all the same (or must, by the member's rate and the
  job's round trip), the target grows: twofold at least, to what rate and round trip call for, 32-fold at most.
  So no guess risks more than 32 times what the member has just used up.
- The target shrinks when a demand comes back less than half full (there is no more to be had), when locks run down in
  the buffer, and when others wait for what lies here unused. It starts anew when the member has been idle.

Ranges that leave the buffer other than by `take` are to be given back with `unacquire`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sharegroup.gateway.sessions.consumption import Consumption
from sharegroup.gateway.sessions.read_ahead_buffer import BufferPart, Grant, ReadAheadBuffer
from sharegroup.types import AcquiredRange, OffsetRange

__all__ = ["ReadAhead"]

#: Ranges offered to one response: what encoding it may cost, when redelivered records lie scattered.
MAX_RANGES = 1_000
#: The part of the lock duration in which the member should have taken what it holds here.
_PART_OF_LOCK = 3
#: Lost demands whose answer would still be taken; by then the locks of an older one have long run out.
_MOST_UNANSWERED = 100
_LEAST_GROWTH, _MOST_GROWTH = 2, 32
#: Round trips that the target should last for: half of it is left when a demand is sent, and is to outlast the answer.
_ROUND_TRIPS = 3


class _Demand(NamedTuple):
    """A fetch that stands at the job; `is_ahead`: no fetch of the client was waiting when it was sent."""

    id: str
    sent_ms: int
    records: int
    is_ahead: bool


class ReadAhead:
    """Decides how many records to ask the job for, and when; what has come waits in its buffer. All times are
    milliseconds.

    `min_records`: least records to ask for. `max_records`: most to hold, share.partition.max.record.locks at most.
    `lock_duration_ms`: that of the group. A demand that was not answered for `lost_after_ms` is taken for lost; its
    answer counts when it comes.
    """

    def __init__(self, max_records: int, lock_duration_ms: int, lost_after_ms: int, min_records: int = 0) -> None:
        self._min_records, self._max_records, self._lock_duration_ms = min_records, max_records, lock_duration_ms
        self._lost_after_ms = lost_after_ms
        self._buffer = ReadAheadBuffer()
        self._consumption = Consumption()
        self._unanswered: dict[str, _Demand] = {}
        self._standing: _Demand | None = None
        self._wanted = self._target = 0
        self._last_was_full = self._ran_dry = self._is_waiting = self._is_idle = False
        self._round_trip_ms = 0.0
        self._not_before_ms = self._not_ahead_before_ms = 0

    @property
    def buffered(self) -> int:
        """Records that are here to be sent."""
        return len(self._buffer)

    @property
    def target(self) -> int:
        """Records that the buffer and the standing demand should hold together; 0 before the first demand."""
        return self._target

    @property
    def is_waiting(self) -> bool:
        """Whether a fetch of the client waits for records of this share-partition."""
        return self._is_waiting

    # -- the client's side -----------------------------------------------------------------------------------------

    def ranges(self, most: int = MAX_RANGES) -> list[AcquiredRange]:
        """The first ranges of the buffer, ascending."""
        return self._buffer.ranges(most)

    def part(self) -> BufferPart:
        """The first ranges of the buffer that are to be read alike, for `slice_response`; call `expire` before."""
        return self._buffer.part(MAX_RANGES)

    def grants(self, ranges: Sequence[Sequence[int]]) -> list[Grant]:
        """What the buffer has of `ranges`, (first offset, last offset, ...), as it was granted."""
        return self._buffer.grants(ranges)

    def take(self, acquired: Sequence[AcquiredRange], gaps: Sequence[OffsetRange], now_ms: int) -> int | None:
        """Remove what `slice_response` made of the buffer: sent to the client, and acknowledged as gaps.

        Returns the deadline of the shortest lock among the records sent, which the client has to be told; None if
        there are none.
        """
        self._buffer.take(gaps)
        shortest = self._buffer.take(acquired)
        if acquired:
            self._is_waiting = self._is_idle = False
            records = sum(last - first + 1 for first, last, _ in acquired)
            self._consumption.handed_out(records, now_ms)
        return shortest

    def dry(self, now_ms: int) -> None:
        """A fetch of the client waits, and the buffer is empty."""
        self._consumption.asked(now_ms)
        self._is_waiting, self._is_idle = True, False
        if self._standing is not None and self._standing.is_ahead:
            self._ran_dry = True

    def stopped_waiting(self) -> None:
        """The fetch was answered without records of this share-partition (MaxWaitMs is over, or others had some)."""
        self._is_waiting = False

    # -- the job's side -----------------------------------------------------------------------------------------

    def demand(self, now_ms: int, wanted: int) -> int | None:
        """How many records to ask the job for now, or None; follow it with `sent`. `wanted`: MaxRecords."""
        self._wanted = min(max(wanted, self._min_records), self._max_records)
        if self._is_standing(now_ms) or now_ms < self._not_before_ms:
            return None
        if not self._is_waiting and not self._may_read_ahead(now_ms):
            return None
        self._target = min(max(self._target, self._wanted), self._bound(now_ms))
        self._grow(now_ms)
        missing = self._target - self.buffered
        return missing if 2 * self.buffered < self._target else None

    def sent(self, demand_id: str, records: int, now_ms: int) -> None:
        """The demand is on its way to the job; one stands at a time."""
        self._standing = self._unanswered[demand_id] = _Demand(demand_id, now_ms, records, not self._is_waiting)
        self._ran_dry = False
        if len(self._unanswered) > _MOST_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]

    def refused(self, demand_id: str, now_ms: int, retry_ms: int) -> None:
        """The demand was answered with an error, or could not be sent; the next one goes out after `retry_ms`."""
        if self._answered(demand_id) is not None:
            self._not_before_ms = now_ms + retry_ms

    def arrived(
        self,
        demand_id: str,
        ranges: Sequence[AcquiredRange],
        lock_deadline_ms: int,
        now_ms: int,
        read_committed: bool = False,
    ) -> bool:
        """Put what the job acquired into the buffer.

        False, and nothing changes, for an answer that came before, or that is not waited for any more.
        """
        demand = self._answered(demand_id)
        if demand is None:
            return False
        self._buffer.add(ranges, lock_deadline_ms, read_committed)
        records = sum(last - first + 1 for first, last, _ in ranges)
        self._last_was_full = records >= demand.records
        if self._last_was_full:
            # Only a full answer came as fast as the job could: others waited for records to be there.
            sample = max(1, now_ms - demand.sent_ms)
            self._round_trip_ms = (self._round_trip_ms + sample) / 2 if self._round_trip_ms else float(sample)
        elif 2 * records < demand.records:
            self._shrink()
        return True

    def lost(self) -> None:
        """The job has started anew and may know nothing of the demand; its answer counts when it comes."""
        self._standing = None

    # -- giving back -----------------------------------------------------------------------------------------------

    def shortest_deadline_ms(self) -> int | None:
        """When the first lock in the buffer ends; None when it is empty."""
        return self._buffer.shortest_deadline_ms()

    def expire(self, now_ms: int, min_left_ms: int) -> list[AcquiredRange]:
        """Drop the ranges whose lock ends within `min_left_ms`, to be given back.

        Those whose lock has ended are among them: the job took them back, but counts a delivery that never was.
        """
        due = self._buffer.take_due(now_ms + min_left_ms)
        if due:
            self._shrink()
        return due

    def idle(self) -> list[AcquiredRange]:
        """The member does not fetch any more: all ranges, to be given back; the target starts anew."""
        self._is_idle, self._last_was_full = True, False
        self._target = self._wanted
        return self._buffer.take_last(self.buffered)

    def spare(self, now_ms: int, keep_ms: int) -> list[AcquiredRange]:
        """When others wait: what the member will not have taken in `keep_ms`, to be given back; the highest offsets.

        There is no read-ahead beyond what is kept for as long.
        """
        keep = int((self._consumption.rate(now_ms) or 0.0) * keep_ms)
        if self._is_waiting or self.buffered <= keep:
            return []
        self._target = max(self._wanted, keep)
        self._last_was_full = False
        self._not_ahead_before_ms = now_ms + keep_ms
        return self._buffer.take_last(self.buffered - keep)

    def close(self) -> list[AcquiredRange]:
        """All ranges, to be given back; answers to what was asked so far are not taken any more.

        The member's session has ended, or the job has taken back all that the member held.
        """
        self._unanswered.clear()
        self._standing = None
        return self._buffer.take_last(self.buffered)

    # -- the credit ------------------------------------------------------------------------------------------------

    def _is_standing(self, now_ms: int) -> bool:
        return self._standing is not None and now_ms - self._standing.sent_ms < self._lost_after_ms

    def _answered(self, demand_id: str) -> _Demand | None:
        demand = self._unanswered.pop(demand_id, None)
        if demand is not None and demand is self._standing:
            self._standing = None
        return demand

    def _may_read_ahead(self, now_ms: int) -> bool:
        if self._is_idle or now_ms < self._not_ahead_before_ms:
            return False
        return self._lasting(now_ms) >= self._wanted

    def _lasting(self, now_ms: int) -> int:
        """What the member takes in the part of the lock duration that records may lie here."""
        return int((self._consumption.rate(now_ms) or 0.0) * self._lock_duration_ms / _PART_OF_LOCK)

    def _bound(self, now_ms: int) -> int:
        return min(self._max_records, max(self._wanted, self._lasting(now_ms)))

    def _grow(self, now_ms: int) -> None:
        """Raise the target, once for each full answer."""
        rate = self._consumption.rate(now_ms)
        if not self._last_was_full or rate is None:
            return
        a_trip = rate * self._round_trip_ms
        if not self._ran_dry and a_trip <= self._target:
            return
        growth = min(max(_ROUND_TRIPS * a_trip, _LEAST_GROWTH * self._target), _MOST_GROWTH * self._target)
        self._target = min(int(growth), self._bound(now_ms))
        self._last_was_full = self._ran_dry = False

    def _shrink(self) -> None:
        self._target = max(self._wanted, self._target // 2)
        self._last_was_full = False
