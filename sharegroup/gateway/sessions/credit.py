"""Decides how many records a gateway requests from the job for one member of one share-partition. No I/O, no clock.

A response of the job takes a micro-batch, but a fetch of a client takes only about a millisecond. The gateway therefore
acquires more records than a fetch needs, and serves the next fetches from its buffer (*read-ahead*). A request to the
job for records is called a *demand*. It waits at the job until there are records. How many records a demand requests
depends on the observed behaviour of the member:

- The first demand is for the records that the fetch may receive, or for `min_records` if that is more. Later demands
  are for more only if the member is likely to fetch again soon. A member that fetches late would otherwise hold
  records that other members could have.
- Read-ahead is allowed only if the member, at its current rate, consumes the records of one fetch (`wanted`) in two
  fifths of the lock duration. The member then fetches the buffered records within this time. Processing them may take
  another two fifths. The last fifth is left for the acknowledgement.
- `target` is the number of records that the buffer and the open demand should hold together. A demand is sent when the
  buffer holds less than half of the target.
- The target grows if two conditions are true. The job has returned as many records as requested, and the buffer has run
  empty or would run empty before the next response. The new target is computed from the member's rate and the round
  trip to the job. It is 2 to 32 times the previous target, so that a wrong estimate does not acquire too many records.
  The member's limits can make it smaller.
- All members that use a share-partition share its locks (`share_locks`). If there are several members, each is sent at
  most half of its share at once. The other half can then be read ahead while the member processes the first half.
  Otherwise there might be no locks for more records until the member acknowledges. The first delivery of a member is
  small, because the member may be slow and other members may follow.
- A member is sent at most the records that it consumes in two fifths of the lock duration, even if MaxRecords is more.
  Some members acknowledge only when they have processed all records of a delivery, and each expired lock costs a
  delivery attempt.
- With `linger_ms`, a read-ahead demand may wait at the job for other demands, so that one micro-batch serves several
  demands. The wait ends early enough that the buffered records last for a few more round trips. With `linger_ms`, the
  target is larger, because the buffered records must also last for the wait.
- The target shrinks when a response has less than half of the requested records, because few are available. It also
  shrinks when locks in the buffer have nearly expired, and when other members wait for the buffered records. It is
  reset when the member has become idle.
"""

from __future__ import annotations

from sharegroup.gateway.sessions.consumption import Consumption
from sharegroup.gateway.sessions.demands import FetchDemand

#: The fraction of the lock duration within which the member should fetch the records that are buffered for it.
PART_OF_LOCK = 0.4
#: Limits of the first delivery to a member: a part (1/n) of the records that the member may hold, but at least
#: `_MIN_FIRST_DELIVERY` and at most `_MAX_FIRST_DELIVERY`. If a record takes 200 ms, 125 records take 25 s, which is
#: less than the default lock duration.
_FIRST_DELIVERY_PART, _MIN_FIRST_DELIVERY, _MAX_FIRST_DELIVERY = 16, 50, 125
_MIN_GROWTH, _MAX_GROWTH = 2, 32
#: Number of round trips to the job for which the target should last. A demand is sent when half of the target is left.
#: That half must last until the response.
_ROUND_TRIPS = 3
#: When a demand has waited for other demands (`linger_ms`), the buffered records must still last for this many round
#: trips. More than one is needed, because the next round trip may be slower than usual.
_MARGIN_TRIPS = 3


class Credit:
    """Computes how many records to request for one member, from the member's behaviour. All times are in ms.

    Args:
        max_records: the most records to acquire for the member, at most `share.partition.max.record.locks`.
        lock_duration_ms: the lock duration of the group.
        min_records: the fewest records to request.
        linger_ms: the longest time that a demand may wait at the job for other demands.
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
        """The number of records that the buffer and the open demand should hold together; 0 before the first demand."""
        return self._target

    @property
    def wanted(self) -> int:
        """The number of records to request for the member's newest fetch, without read-ahead; 0 before any fetch."""
        return self._wanted

    # -- what the client does ------------------------------------------------------------------------------------------

    def set_fetch_size(self, records: int, now_ms: int) -> None:
        """Compute the property `wanted` for a new fetch of the client. `records` is MaxRecords of this fetch."""
        self._wanted = min(max(self._max_delivery(records, now_ms), self._min_records), self._limit)

    def max_records_now(self, wanted: int, now_ms: int) -> int:
        """Return how many records may be sent in response to a fetch. The fetch itself allows `wanted` records.

        The result is less if the member's rate or its share of the locks requires it. The fetch shows that the member
        has processed its last delivery, so this call also records the end of that delivery.
        """
        self._consumption.record_delivery_end(now_ms)
        return self._max_delivery(wanted, now_ms)

    def can_send(self, records: int, now_ms: int) -> bool:
        """Return whether the member's rate and its share of the locks allow `records` in one response."""
        return self._max_delivery(records, now_ms) >= records

    @property
    def is_last_response_full(self) -> bool:
        """Whether the last response of the job contained as many records as its demand requested."""
        return self._last_was_full

    def share_locks(self, locks: int, members: int) -> None:
        """Limit the member to an equal share of the share-partition's `locks`, which `members` members share."""
        self._limit = max(1, min(locks // max(1, members), self._max_records))
        self._wanted = min(self._wanted, self._limit)
        self._is_alone = members <= 1

    def record_empty_buffer(self, now_ms: int, is_asked_ahead: bool) -> None:
        """Record that a fetch found the buffer empty.

        `is_asked_ahead` is True if a read-ahead demand was open at that time, which shows that the read-ahead was too
        small.
        """
        self._consumption.record_delivery_end(now_ms)
        self._is_idle = False
        self._ran_empty = self._ran_empty or is_asked_ahead

    def record_delivery(self, records: int, now_ms: int) -> None:
        self._is_idle = self._is_new = False
        self._consumption.record_delivery(records, now_ms)

    def record_all_acknowledged(self, now_ms: int) -> None:
        """Record that the member has acknowledged all its records. Until its next fetch, it processes none."""
        self._consumption.record_delivery_end(now_ms)

    def reset(self) -> None:
        """Stop read-ahead and reset the target to `wanted`, because the member has stopped fetching."""
        self._is_idle, self._last_was_full = True, False
        self._target = self._wanted

    # -- what the job does ---------------------------------------------------------------------------------------------

    def records_to_request(self, buffered: int, is_waiting: bool, now_ms: int) -> int | None:
        """Return how many records to request now; None if no request is needed. This may also change `target`.

        No request is needed while the buffer has at least half the target. While no fetch waits, a request is made only
        if read-ahead is allowed. `buffered` is the number of records in the buffer. `is_waiting` is True if a fetch of
        the client waits for records.
        """
        if not is_waiting and not self._may_read_ahead(now_ms):
            return None
        self._target = min(max(self._target, self._wanted), self._bound(now_ms))
        self._grow(now_ms)
        return self._target - buffered if 2 * buffered < self._target else None

    def linger_ms(self, buffered: int, now_ms: int) -> int:
        """Return how long a demand that is sent now may wait for other demands.

        `buffered` is the number of records in the buffer.
        """
        rate = self._consumption.rate(now_ms)
        if not (self._linger_ms and rate):
            return 0
        return max(0, min(self._linger_ms, int(buffered / rate - _MARGIN_TRIPS * self._round_trip_ms)))

    def record_demand(self) -> None:
        self._ran_empty = False

    def record_response(self, demand: FetchDemand, records: int, now_ms: int) -> None:
        self._last_was_full = records >= demand.records
        if self._last_was_full:
            # Only full responses measure the round trip; the others waited for records to arrive.
            sample = self._round_trip_of(demand, now_ms)
            self._round_trip_ms = (self._round_trip_ms + sample) / 2 if self._round_trip_ms else sample
        elif 2 * records < demand.records:
            self.shrink()

    # -- shrinking -----------------------------------------------------------------------------------------------------

    def shrink(self) -> None:
        """Halve the target, because few records are available or locks in the buffer have nearly expired.

        The target does not fall below `self.wanted`, the number of records for the member's newest fetch.
        """
        self._target = max(self._wanted, self._target // 2)
        self._last_was_full = False

    def records_consumed_in(self, now_ms: int, for_ms: float) -> int:
        """Return how many records the member consumes in `for_ms`, at its current rate."""
        return int((self._consumption.rate(now_ms) or 0.0) * for_ms)

    def restrict(self, target: int, until_ms: int) -> None:
        """Set the target to `target`, but at least to `wanted`. Stop read-ahead until `until_ms`.

        Called when other members wait for the buffered records.
        """
        self._target = max(self._wanted, target)
        self._last_was_full = False
        self._not_ahead_before_ms = until_ms

    def _round_trip_of(self, demand: FetchDemand, now_ms: int) -> float:
        """Return the round trip time of a demand.

        If an earlier round trip is known, the time that the demand may have waited for other demands is excluded.
        """
        took_ms = max(1.0, now_ms - demand.sent_ms)
        if not (demand.linger_ms and self._round_trip_ms):
            return took_ms
        return min(max(self._round_trip_ms, took_ms - demand.linger_ms), took_ms)

    def _max_delivery(self, wanted: int, now_ms: int) -> int:
        if self._is_new:
            return min(
                wanted, max(_MIN_FIRST_DELIVERY, min(self._max_records // _FIRST_DELIVERY_PART, _MAX_FIRST_DELIVERY))
            )
        most = wanted if self._is_alone else min(wanted, self._limit // 2)
        return max(1, most if self._consumption.rate(now_ms) is None else min(most, self._max_buffered(now_ms)))

    def _may_read_ahead(self, now_ms: int) -> bool:
        if self._is_idle or now_ms < self._not_ahead_before_ms:
            return False
        return self._max_buffered(now_ms) >= self._wanted

    def _max_buffered(self, now_ms: int) -> int:
        """Return the most records to buffer: those that the member consumes in two fifths of the lock duration."""
        return int((self._consumption.rate(now_ms) or 0.0) * PART_OF_LOCK * self._lock_duration_ms)

    def _bound(self, now_ms: int) -> int:
        return min(self._limit, max(self._wanted, self._max_buffered(now_ms)))

    def _grow(self, now_ms: int) -> None:
        """Increase the target if the buffer has run empty, or would run empty before the next response.

        It grows only if the last response had as many records as requested, and only once after that response. The
        member's rate must also be known.
        """
        rate = self._consumption.rate(now_ms)
        if not self._last_was_full or rate is None:
            return
        least_ms, lasting_ms = self._round_trip_ms, _ROUND_TRIPS * self._round_trip_ms
        if self._linger_ms:  # for half the target, since the other half is consumed when a demand is sent
            least_ms, lasting_ms = (2 * (self._linger_ms + n * self._round_trip_ms) for n in (1, _MARGIN_TRIPS))
        if not self._ran_empty and rate * least_ms <= self._target:
            return
        growth = min(max(rate * lasting_ms, _MIN_GROWTH * self._target), _MAX_GROWTH * self._target)
        self._target = min(int(growth), self._bound(now_ms))
        self._last_was_full = self._ran_empty = False
