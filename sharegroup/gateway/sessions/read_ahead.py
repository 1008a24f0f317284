"""What is read ahead for one member at one share-partition: the buffer, and the demands that fill it. No I/O, no clock.

How much there is to be of it is `credit`'s to say. Ranges that leave the buffer other than by `take` are to be given
back with `unacquire`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.gateway.sessions.credit import Credit
from sharegroup.gateway.sessions.demands import Demand, Demands
from sharegroup.gateway.sessions.read_ahead_buffer import BufferPart, Grant, ReadAheadBuffer
from sharegroup.types import AcquiredRange, OffsetRange

#: Ranges offered to one response: what encoding it may cost, when redelivered records lie scattered.
MAX_RANGES = 1_000
#: A demand for one round whose answer is so late, in ms, was lost with the job; it is sent again.
ROUND_LOST_AFTER_MS = 10_000


class ReadAhead:
    """Decides how many records to ask the job for, and when; what has come waits in its buffer.

    All times are milliseconds; for the arguments see `Credit` and `Demands`.
    """

    def __init__(
        self, max_records: int, lock_duration_ms: int, lost_after_ms: int, min_records: int = 0, linger_ms: int = 0
    ) -> None:
        self.credit = Credit(max_records, lock_duration_ms, min_records, linger_ms)
        self._demands = Demands(lost_after_ms, ROUND_LOST_AFTER_MS)
        self._buffer = ReadAheadBuffer()
        self._is_waiting = False
        self._without_since_ms: int | None = None
        #: The last offset of a part of a record batch whose rest was asked for.
        self._rest_behind: int | None = None

    @property
    def buffered(self) -> int:
        """Records that are here to be sent."""
        return len(self._buffer)

    @property
    def is_waiting(self) -> bool:
        """Whether a fetch of the client waits for records of this share-partition."""
        return self._is_waiting

    def has_waited(self, now_ms: int, for_ms: int) -> bool:
        """Whether a fetch of the client waits, and the client has got nothing here for so long though it asked."""
        return self._is_waiting and self._without_since_ms is not None and now_ms - self._without_since_ms >= for_ms

    @property
    def _is_in_need(self) -> bool:
        return self._is_waiting and not self.buffered

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
            self._is_waiting, self._without_since_ms = False, None
            self.credit.handed_out(sum(last - first + 1 for first, last, _ in acquired), now_ms)
        return shortest

    def client_waits(self, now_ms: int) -> None:
        """A fetch of the client waits, and the buffer is empty."""
        self._is_waiting = True
        if self._without_since_ms is None:
            self._without_since_ms = now_ms
        self.credit.waits(now_ms, self._demands.is_ahead)

    def stopped_waiting(self) -> None:
        """The fetch was answered without records of this share-partition (MaxWaitMs is over, or others had some)."""
        self._is_waiting = False

    # -- the job's side -----------------------------------------------------------------------------------------

    def demand(self, now_ms: int, wanted: int | None = None, is_round: bool = False) -> int | None:
        """How many records to ask the job for now, or None; follow it with `sent`.

        `wanted`: MaxRecords of a fetch; None when it is not one that asks, but records have come. `is_round`: the fetch
        waits for one answer of the job only.
        """
        if wanted is not None:
            self.credit.wants(wanted, now_ms)
        if not self._demands.may_send(now_ms, is_round):
            return None
        return self.credit.missing(self.buffered, self._is_in_need, now_ms)

    def rest_of_batch(self, part: Sequence[AcquiredRange], rest: int, now_ms: int) -> int | None:
        """How many records to ask for so that the record batch in which `part` ends is complete; `rest` are missing.

        None: `part` should be sent as it is. 0: it should wait, as the answer to a demand may bring the rest. A rest
        that others have, or with which the member would be sent too much at once, is not waited for.
        """
        last_offset, records = part[-1].last_offset, sum(last - first + 1 for first, last, _ in part)
        if self._rest_behind == last_offset:
            return 0 if self._demands.is_standing else None
        may_send = self.credit.last_was_full and self.credit.may_send(records + rest, now_ms)
        if not rest or records < self.buffered or not may_send:
            return None
        self._rest_behind = last_offset
        if self._demands.may_send(now_ms):
            return rest
        return 0 if self._demands.is_standing else None

    def linger_ms(self, now_ms: int) -> int:
        """How long the demand may wait at the job for others."""
        return 0 if self._is_in_need else self.credit.linger_ms(self.buffered, now_ms)

    def sent(self, demand_id: str, records: int, now_ms: int, linger_ms: int = 0, is_round: bool = False) -> None:
        """The demand is on its way to the job; one stands at a time."""
        self._demands.sent(Demand(demand_id, now_ms, records, not self._is_in_need, linger_ms, is_round))
        self.credit.sent()

    def refused(self, demand_id: str, now_ms: int, retry_ms: int) -> None:
        """The demand was answered with an error, or could not be sent; the next one goes out after `retry_ms`."""
        if self._demands.answered(demand_id) is not None:
            self._demands.pause_until(now_ms + retry_ms)

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
        demand = self._demands.answered(demand_id)
        if demand is None:
            return False
        self._buffer.add(ranges, lock_deadline_ms, read_committed)
        self.credit.answered(demand, sum(last - first + 1 for first, last, _ in ranges), now_ms)
        return True

    def lost(self) -> None:
        """The job has started anew and may know nothing of the demand; its answer counts when it comes."""
        self._demands.lost()

    # -- giving back -----------------------------------------------------------------------------------------------

    def expire(self, now_ms: int, min_left_ms: int) -> list[AcquiredRange]:
        """Drop the ranges whose lock ends within `min_left_ms`, to be given back.

        Those whose lock has ended are among them: the job took them back, but counts a delivery that never was.
        """
        due = self._buffer.take_due(now_ms + min_left_ms)
        if due:
            self.credit.shrink()
        return due

    def take_uncommitted(self) -> list[AcquiredRange]:
        """The group reads committed records only by now: all ranges granted before that, to be given back."""
        return self._buffer.take_uncommitted()

    def idle(self) -> list[AcquiredRange]:
        """The member does not fetch any more: all ranges, to be given back."""
        self.credit.idle()
        return self._buffer.take_last(self.buffered)

    def spare(self, now_ms: int, keep_ms: int) -> list[AcquiredRange]:
        """When others wait: what the member will not have taken in `keep_ms`, to be given back; the highest offsets.

        There is no read-ahead beyond what is kept for as long.
        """
        keep = self.credit.lasting(now_ms, keep_ms)
        if self._is_waiting or self.buffered <= keep:
            return []
        self.credit.restrict(keep, now_ms + keep_ms)
        return self._buffer.take_last(self.buffered - keep)

    def close(self) -> list[AcquiredRange]:
        """All ranges, to be given back; answers to what was asked so far are not taken any more.

        The member's session has ended, or the job has taken back all that the member held.
        """
        self._demands.clear()
        return self._buffer.take_last(self.buffered)
