"""How much a gateway asks the job for on behalf of one member at one share-partition. No I/O, no clock.

An answer of the job takes a micro-batch, a fetch of a client a millisecond, so the gateway acquires more than a
fetch wants and serves the next ones from its buffer. That is credit, bounded by what the member is known to do:

- The first demand is what the client's own fetch wants (MaxRecords), or `min_records` if that is more, and so is every
  one of a member that is not known to come back soon. Only then is there read-ahead: when what it takes in two
  fifths of the lock duration is more than that: work on that takes as long again, and a fifth is left for its
  acknowledgement. A demand that stands for who never comes would get what others could have.
- `target` is what the buffer and the demand that stands should hold together. A demand is sent when less than half of
  it is left. When demands come back full, and the buffer runs empty all the same (or must, by the member's rate and the
  job's round trip), the target grows: twofold at least, to what rate and round trip call for, 32-fold at most.
  So no guess risks more than 32 times what the member has just used up.
- The locks of a share-partition are for all of the members that use it: `share_locks`. Each is sent half of its share
  at once, so that the other half is ahead of it while it works, though there may be no room for more in the window
  before it has acknowledged that. And who comes first may be slow, and not the only one: its first records are few.
- Whatever its fetch wants, a member is sent no more at once than it takes in two fifths of the lock duration: it
  acknowledges them when it has worked on all of them, and what its locks have run out for has cost an attempt.
- With `linger_ms`, a demand that is sent ahead may wait at the job for others, so that one micro-batch serves more of
  them: until what is here lasts for a few round trips. The target allows for that.
- The target shrinks when a demand comes back less than half full (there is no more to be had), when locks run down in
  the buffer, and when others wait for what lies here unused. It starts anew when the member has been idle.
"""

from __future__ import annotations

from sharegroup.gateway.sessions.consumption import Consumption
from sharegroup.gateway.sessions.demands import Demand

#: The part of the lock duration in which the member should have taken what lies here for it.
PART_OF_LOCK = 0.4
#: A member's first records are this part of the most that it may hold, but need not be less than so many, nor may they
#: be more: at 200 ms a record they take 25 s.
_FIRST_PART, _LEAST_FIRST, _MOST_FIRST = 16, 50, 125
_LEAST_GROWTH, _MOST_GROWTH = 2, 32
#: Round trips that the target should last for: half of it is left when a demand is sent, and is to outlast the answer.
_ROUND_TRIPS = 3
#: Round trips for which there must be records still when a demand has lingered: the next one may be slower.
_MARGIN_TRIPS = 3


class Credit:
    """Learns from what the member does, and tells how many records to ask for. All times are milliseconds.

    `min_records`: least records to ask for. `max_records`: most to hold, share.partition.max.record.locks at most.
    `lock_duration_ms`: that of the group. `linger_ms`: the most that a demand may wait for others at the job.
    """

    def __init__(self, max_records: int, lock_duration_ms: int, min_records: int = 0, linger_ms: int = 0) -> None:
        self._min_records, self._max_records, self._lock_duration_ms = min_records, max_records, lock_duration_ms
        self._linger_ms = linger_ms
        self._limit = max_records
        self._is_new, self._is_alone = True, True
        self._consumption = Consumption()
        self._wanted = self._target = 0
        self._last_was_full = self._ran_empty = self._is_idle = False
        self._round_trip_ms = 0.0
        self._not_ahead_before_ms = 0

    @property
    def target(self) -> int:
        """Records that the buffer and the standing demand should hold together; 0 before the first demand."""
        return self._target

    # -- what the client does ------------------------------------------------------------------------------------------

    def wants(self, records: int, now_ms: int) -> None:
        """The MaxRecords of its fetch."""
        self._wanted = min(max(self._most(records, now_ms), self._min_records), self._limit)

    def at_once(self, wanted: int, now_ms: int) -> int:
        """How many of the `wanted` records of the fetch that has come the member may be sent now."""
        self._consumption.asked(now_ms)
        return self._most(wanted, now_ms)

    def may_send(self, records: int, now_ms: int) -> bool:
        """Whether the member may be sent so many records at once."""
        return self._most(records, now_ms) >= records

    @property
    def last_was_full(self) -> bool:
        """Whether the last demand was answered with all records that it asked for."""
        return self._last_was_full

    def share_locks(self, locks: int, members: int) -> None:
        """So many members use the share-partition now, which has so many locks."""
        self._limit = max(1, min(locks // max(1, members), self._max_records))
        self._wanted = min(self._wanted, self._limit)
        self._is_alone = members <= 1

    def waits(self, now_ms: int, is_asked_ahead: bool) -> None:
        """Its fetch has found the buffer empty; `is_asked_ahead`: though more was asked for in time."""
        self._consumption.asked(now_ms)
        self._is_idle = False
        self._ran_empty = self._ran_empty or is_asked_ahead

    def handed_out(self, records: int, now_ms: int) -> None:
        """It was sent so many records."""
        self._is_idle = self._is_new = False
        self._consumption.handed_out(records, now_ms)

    def finished(self, now_ms: int) -> None:
        """It has acknowledged all that it was sent, and may do other things before it fetches again."""
        self._consumption.asked(now_ms)

    def idle(self) -> None:
        """It does not fetch any more: the target starts anew."""
        self._is_idle, self._last_was_full = True, False
        self._target = self._wanted

    # -- what the job does ---------------------------------------------------------------------------------------------

    def missing(self, buffered: int, is_waiting: bool, now_ms: int) -> int | None:
        """How many records to ask for now, or None; `is_waiting`: a fetch of the client waits for some."""
        if not is_waiting and not self._may_read_ahead(now_ms):
            return None
        self._target = min(max(self._target, self._wanted), self._bound(now_ms))
        self._grow(now_ms)
        return self._target - buffered if 2 * buffered < self._target else None

    def linger_ms(self, buffered: int, now_ms: int) -> int:
        """How long a demand that is sent now may wait for others; `buffered` are the records that are here."""
        rate = self._consumption.rate(now_ms)
        if not (self._linger_ms and rate):
            return 0
        return max(0, min(self._linger_ms, int(buffered / rate - _MARGIN_TRIPS * self._round_trip_ms)))

    def sent(self) -> None:
        """A demand is on its way."""
        self._ran_empty = False

    def answered(self, demand: Demand, records: int, now_ms: int) -> None:
        """So many records came for a demand."""
        self._last_was_full = records >= demand.records
        if self._last_was_full:
            # Only a full answer came as fast as the job could: others waited for records to be there.
            sample = self._round_trip_of(demand, now_ms)
            self._round_trip_ms = (self._round_trip_ms + sample) / 2 if self._round_trip_ms else sample
        elif 2 * records < demand.records:
            self.shrink()

    # -- less of it ----------------------------------------------------------------------------------------------------

    def shrink(self) -> None:
        """There is no more to be had, or locks ran down in the buffer."""
        self._target = max(self._wanted, self._target // 2)
        self._last_was_full = False

    def lasting(self, now_ms: int, for_ms: float) -> int:
        """How many records the member takes in so long."""
        return int((self._consumption.rate(now_ms) or 0.0) * for_ms)

    def restrict(self, target: int, until_ms: int) -> None:
        """Others wait: no read-ahead beyond `target`, and none until then."""
        self._target = max(self._wanted, target)
        self._last_was_full = False
        self._not_ahead_before_ms = until_ms

    def _round_trip_of(self, demand: Demand, now_ms: int) -> float:
        """Of one that may have lingered: as it was before, as far as that is possible."""
        took_ms = max(1.0, now_ms - demand.sent_ms)
        if not (demand.linger_ms and self._round_trip_ms):
            return took_ms
        return min(max(self._round_trip_ms, took_ms - demand.linger_ms), took_ms)

    def _most(self, wanted: int, now_ms: int) -> int:
        if self._is_new:
            return min(wanted, max(_LEAST_FIRST, min(self._max_records // _FIRST_PART, _MOST_FIRST)))
        most = wanted if self._is_alone else min(wanted, self._limit // 2)
        return max(1, most if self._consumption.rate(now_ms) is None else min(most, self._lasting_here(now_ms)))

    def _may_read_ahead(self, now_ms: int) -> bool:
        if self._is_idle or now_ms < self._not_ahead_before_ms:
            return False
        return self._lasting_here(now_ms) >= self._wanted

    def _lasting_here(self, now_ms: int) -> int:
        """What the member takes in the part of the lock duration that records may lie here."""
        return int((self._consumption.rate(now_ms) or 0.0) * PART_OF_LOCK * self._lock_duration_ms)

    def _bound(self, now_ms: int) -> int:
        return min(self._limit, max(self._wanted, self._lasting_here(now_ms)))

    def _grow(self, now_ms: int) -> None:
        """Raise the target, once for each full answer."""
        rate = self._consumption.rate(now_ms)
        if not self._last_was_full or rate is None:
            return
        least_ms, lasting_ms = self._round_trip_ms, _ROUND_TRIPS * self._round_trip_ms
        if self._linger_ms:  # of half the target, as the other half is gone when a demand is sent
            least_ms, lasting_ms = (2 * (self._linger_ms + n * self._round_trip_ms) for n in (1, _MARGIN_TRIPS))
        if not self._ran_empty and rate * least_ms <= self._target:
            return
        growth = min(max(rate * lasting_ms, _LEAST_GROWTH * self._target), _MOST_GROWTH * self._target)
        self._target = min(int(growth), self._bound(now_ms))
        self._last_was_full = self._ran_empty = False
