"""The ranges that a member holds: queued ranges, one offered batch, one running batch. No clock and no Kafka.

A batch is *offered* to the Python source of the member's Spark query. When the source has *claimed* it, Spark runs it.

Lock deadlines are times of the brokers' clocks, but `now_ms` is the time of the member's steady clock.
`HeldBatches.ahead_ms` is the difference. `HeldBatches.brokers_ms` converts `now_ms`, to compare it with deadlines.

    acquired --> queued <--> offered --claimed--> running --> acknowledged
                   |
                   +--> returned (`unacquire`) when half of the lock duration has passed

Only the locks of the running batch are renewed, for a limited time. A static member renews them immediately when the
batch begins, because renewed locks last long enough for a restart. Ranges that wait while a slow handler runs are
returned, so that other members can acquire them. The member is then *stalled* until its handler has finished: it holds
nothing but the running batch, and requests nothing. It is also stalled if it acquires records that its handler still
processes, which happens when their earlier locks were lost.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Protocol

from sharegroup.member.batch_plan import plan_batch
from sharegroup.member.ranges import AssignedPartition, HeldRange, OfferedBatch, count_records
from sharegroup.protocol.range_map import RangeMap


class Offers(Protocol):
    """The offers of batches to the Python source of the Spark query (implemented by `offer_file.OfferFile`)."""

    def put(self, batch: OfferedBatch) -> None:
        """Offer a batch. The previous one must have been claimed or withdrawn."""

    def is_claimed(self) -> bool:
        """Return whether the source has claimed the offered batch."""

    def withdraw(self) -> bool:
        """Withdraw the offer and return True. Return False if the source has already claimed it."""

    def close(self) -> None:
        """Announce that no further offer follows."""


@dataclass
class RunningBatch:
    """The batch that Spark runs. All times except `began_ms` are times of the brokers' clocks.

    Attributes:
        began_ms: when the batch began, as a time of the member's clock.
        renewable: the ranges whose locks are renewed at `renew_at_ms`.
        lock_deadline_ms: the earliest end of these locks.
        is_renewing: whether a renewal that was appended in time waits for its response.
        is_lost: whether it is possible that other members have acquired some of its records.
        deleted: the batch's share-partitions whose topic was deleted.
        locks: for each share-partition, the lock deadline of each offset of the batch.
    """

    seq: int
    ranges: tuple[HeldRange, ...]
    began_ms: int
    brokers_ms: InitVar[int | None] = None
    renewable: set[HeldRange] = field(init=False)
    lock_deadline_ms: int = field(init=False)
    renew_at_ms: int = field(init=False)
    is_renewing: bool = False
    is_lost: bool = False
    deleted: set[AssignedPartition] = field(default_factory=set)
    locks: dict[AssignedPartition, RangeMap[int]] = field(init=False, default_factory=dict)

    def __post_init__(self, brokers_ms: int | None) -> None:
        now_ms = self.began_ms if brokers_ms is None else brokers_ms
        self.set_lock_deadline(min((held.lock_deadline_ms for held in self.ranges), default=0), now_ms)
        self.renewable = set(self.ranges)
        self.record_locks(self.ranges)

    def overlaps(self, wanted: HeldRange) -> bool:
        """Return whether the batch and this range have an offset in common."""
        locks = self.locks.get(wanted.share_partition, RangeMap())
        return any(True for _ in locks.items(wanted.first_offset, wanted.last_offset))

    def is_held(self, now_ms: int) -> bool:
        """Return whether no other member can have acquired the batch's records.

        A renewal that waits for its response counts as successful, because it takes effect when it is appended.
        """
        return not self.is_lost and not self.deleted and (self.is_renewing or now_ms < self.lock_deadline_ms)

    def mark_renewal_appended(self, now_ms: int) -> None:
        """Record that a renewal was appended.

        If this happened before the lock deadline, the batch counts as held until the response arrives.
        """
        self.is_renewing |= now_ms < self.lock_deadline_ms

    def apply_renewal(self, renewed: Collection[HeldRange], is_refused: bool, now_ms: int) -> int:
        """Store which ranges were renewed, and return the number of records that were not renewed.

        `is_refused` is whether a part of the renewal was rejected. If records were not renewed although their locks
        cannot have expired, the log's start has moved past these records, so the batch is not lost.
        """
        missing = count_records(self.renewable) - count_records(renewed)
        self.is_lost |= is_refused or (missing > 0 and now_ms >= self.lock_deadline_ms)
        self.is_renewing = False
        self.renewable = set(renewed)
        if renewed:
            self.set_lock_deadline(min(held.lock_deadline_ms for held in renewed), now_ms)
        return missing

    def discard_deleted(self) -> tuple[HeldRange, ...]:
        """Discard the ranges of deleted topics, and return the others. Call it before a handler receives the ranges."""
        self.ranges = tuple(held for held in self.ranges if held.share_partition not in self.deleted)
        self.deleted.clear()
        return self.ranges

    def mark_deleted(self, is_gone: Callable[[AssignedPartition], bool]) -> None:
        """Stop renewing the locks of share-partitions whose topic was deleted.

        A batch with such share-partitions no longer counts as held.
        """
        self.deleted |= {held.share_partition for held in self.ranges if is_gone(held.share_partition)}
        self.renewable = {held for held in self.renewable if held.share_partition not in self.deleted}

    def stop_renewing(self) -> None:
        """Stop renewing, so that the records become available to others when their locks expire.

        From now on, the batch counts as lost.
        """
        self.renewable.clear()
        self.is_lost = True

    def record_locks(self, ranges: Iterable[HeldRange]) -> None:
        """Store the lock deadlines of these acquired or renewed ranges in `locks`."""
        for held in ranges:
            locks = self.locks.setdefault(held.share_partition, RangeMap())
            locks.assign(held.first_offset, held.last_offset, held.lock_deadline_ms)

    def set_lock_deadline(self, deadline_ms: int, now_ms: int) -> None:
        """Set the deadline of the locks. The locks are renewed when half of the remaining time has passed."""
        self.lock_deadline_ms = deadline_ms
        self.renew_at_ms = now_ms + max(0, deadline_ms - now_ms) // 2


class HeldBatches:
    """All ranges that a member holds, from acquisition to acknowledgement: queued, offered and running.

    Args:
        offers: passes offered batches to the source.
        incarnation: identifies this process of the member.
        max_records: the maximum number of records in a batch.
        renews_at_once: whether the locks of a batch are renewed as soon as the batch begins.
    """

    def __init__(self, offers: Offers, incarnation: str, max_records: int, renews_at_once: bool = False) -> None:
        self._renews_at_once = renews_at_once
        self._offers, self._incarnation, self._max_records = offers, incarnation, max_records
        self._queued: list[HeldRange] = []
        self._unwanted: list[HeldRange] = []
        #: The ranges of an earlier process's batch that is about to run again. Their renewal waits for responses.
        self._awaited: tuple[HeldRange, ...] = ()
        self._offered: OfferedBatch | None = None
        self._seq = 0
        self._lock_ms = 0
        self._offering = True
        self._has_grown = False
        #: The group's `share.delivery.count.limit`; 0 until a record is acquired that was delivered before.
        self.delivery_count_limit = 0
        #: How far the brokers' clocks are ahead of the member's clock, in ms.
        self.ahead_ms = 0
        self.running: RunningBatch | None = None
        self.is_stalled = False

    def brokers_ms(self, now_ms: int) -> int:
        """Convert a time of the member's clock to a time of the brokers' clocks, which determine when locks end."""
        return now_ms + self.ahead_ms

    @property
    def waiting_records(self) -> int:
        """The number of held records in batches that have not begun."""
        return count_records(self._queued) + self.offered_records

    @property
    def offered_records(self) -> int:
        """The number of records in the offered batch."""
        return count_records(self._offered.ranges) if self._offered else 0

    def overlaps(self, wanted: HeldRange) -> bool:
        """Return whether an offset of this range is queued, offered, or in a batch that runs or will run again."""
        offered = self._offered.ranges if self._offered else ()
        is_running = self.running is not None and self.running.overlaps(wanted)
        return is_running or any(wanted.overlaps(held) for held in (*self._queued, *offered, *self._awaited))

    def add(self, acquired: Iterable[HeldRange], now_ms: int) -> None:
        """Queue acquired ranges. Ranges whose lock has expired already are ignored, because others can acquire them.

        A range that overlaps the running batch was acquired again. It is not queued; the next `step` returns it. The
        batch then counts as lost, because other members can acquire its records.
        """
        for held in acquired:
            self._lock_ms = held.lock_deadline_ms - self.brokers_ms(now_ms)
            if self.running is not None and self.running.overlaps(held):
                self._unwanted.append(held)
                self.running.is_lost = self.is_stalled = True
            elif self._lock_ms > 0:
                self._queued.append(held)
                self._has_grown = True

    def step(self, now_ms: int) -> list[HeldRange]:
        """Offer the next batch if possible. Remove and return the ranges that the member must give back to the job."""
        self.check_claim(now_ms)
        returned = self._overdue(now_ms)
        unwanted, self._unwanted = self._unwanted, []
        if returned and self.running is not None:
            self.is_stalled = True
        if self.is_stalled:
            self._withdraw(now_ms)
            returned += self._remove_queued(now_ms, self._is_spare)
        if self._offering and self._offered is None and self._queued:
            plan = plan_batch(self._queued, self._max_records, self.delivery_count_limit)
            self._queued = list(plan.rest)
            self._seq += 1
            self._offered = OfferedBatch(self._seq, self._incarnation, plan.batch)
            self._offers.put(self._offered)
            self._has_grown = False
        return returned + unwanted

    def check_claim(self, now_ms: int) -> None:
        """If the source has claimed the offered batch, make it the running batch."""
        if self._offered is not None and self._offers.is_claimed():
            self._claimed(now_ms)

    def keep_for_rerun(self, ranges: Sequence[HeldRange]) -> None:
        """Hold these ranges until `rerun`: until then, they are neither given back to the job nor released.

        They belong to a batch of an earlier process, and their renewal has been requested. A request that gives them
        back or releases them would take effect after the renewal. The batch would then run with records that other
        members can acquire.
        """
        self._awaited = tuple(ranges)

    def rerun(self, seq: int, ranges: Sequence[HeldRange], now_ms: int) -> None:
        """Make a batch of an earlier process the running batch, and remove its ranges from the queue."""
        self._awaited = ()
        self._withdraw(now_ms)
        self._queued = _without(self._queued, ranges)
        self.running = RunningBatch(seq, tuple(ranges), now_ms, self.brokers_ms(now_ms))

    def finish(self, seq: int) -> None:
        if self.running is not None and self.running.seq == seq:
            self.running = None
            self.is_stalled = False

    def stop_offering(self, now_ms: int) -> None:
        """Stop offering batches to the source. The ranges of an offer that was not claimed are queued again."""
        self._offering = False
        self._withdraw(now_ms)
        self._offers.close()

    def remove_all(self, now_ms: int) -> list[HeldRange]:
        """Remove all queued ranges. Return the removed ranges whose locks have not expired."""
        return self._remove_queued(now_ms, lambda held: True)

    def discard_all(self, now_ms: int) -> None:
        """Discard all queued and offered ranges, because the member was fenced. A running batch is not affected."""
        self._withdraw(now_ms)
        self._queued = []

    def discard_deleted(self, is_gone: Callable[[AssignedPartition], bool], now_ms: int) -> None:
        """Discard the queued and offered ranges of deleted topics, and stop renewing such ranges of the running batch.

        `is_gone` returns whether the topic of a share-partition was deleted.
        """
        offered = self._offered.ranges if self._offered else ()
        if any(is_gone(held.share_partition) for held in offered):
            self._withdraw(now_ms)
        self._queued = [held for held in self._queued if not is_gone(held.share_partition)]
        if self.running is not None:
            self.running.mark_deleted(is_gone)

    def _overdue(self, now_ms: int) -> list[HeldRange]:
        """Remove the queued ranges that have less than half of the lock duration left.

        Return the removed ranges whose locks have not expired. The current offer is withdrawn first if one of its
        ranges has less than half of the lock duration left. It is also withdrawn if it has less than `max_records`
        records and ranges were added since, because a larger offer can replace it. Ranges of a batch that will run
        again are not removed.
        """
        latest_ms = self.brokers_ms(now_ms) + self._lock_ms // 2
        offered = self._offered.ranges if self._offered else ()
        is_small = self._has_grown and count_records(offered) < self._max_records
        if is_small or any(held.lock_deadline_ms < latest_ms for held in offered):
            self._withdraw(now_ms)
        return self._remove_queued(now_ms, lambda held: held.lock_deadline_ms < latest_ms and self._is_spare(held))

    def _is_spare(self, held: HeldRange) -> bool:
        return not any(held.overlaps(awaited) for awaited in self._awaited)

    def _remove_queued(self, now_ms: int, is_chosen: Callable[[HeldRange], bool]) -> list[HeldRange]:
        """Remove the chosen ranges from the queue. Return the removed ranges whose locks have not expired."""
        removed = [held for held in self._queued if is_chosen(held)]
        if removed:
            self._queued = [held for held in self._queued if not is_chosen(held)]
        return [held for held in removed if held.lock_deadline_ms > self.brokers_ms(now_ms)]

    def _withdraw(self, now_ms: int) -> None:
        if self._offered is None:
            return
        if self._offers.withdraw():
            self._queued = _rejoined([*self._offered.ranges, *self._queued])
            self._offered = None
        else:
            self._claimed(now_ms)

    def _claimed(self, now_ms: int) -> None:
        assert self._offered is not None
        self.running = RunningBatch(self._offered.seq, self._offered.ranges, now_ms, self.brokers_ms(now_ms))
        if self._renews_at_once:
            self.running.renew_at_ms = self.brokers_ms(now_ms)
        self._offered = None
        self.is_stalled = False


def _without(queued: Iterable[HeldRange], removed: Iterable[HeldRange]) -> list[HeldRange]:
    """Return the parts of the `queued` ranges that are not in `removed`."""
    left: dict[AssignedPartition, RangeMap[HeldRange]] = {}
    for held in queued:
        left.setdefault(held.share_partition, RangeMap()).assign(held.first_offset, held.last_offset, held)
    for held in removed:
        left.setdefault(held.share_partition, RangeMap()).discard(held.first_offset, held.last_offset)
    return [
        held._replace(first_offset=first, last_offset=last) for found in left.values() for first, last, held in found
    ]


def _rejoined(ranges: Iterable[HeldRange]) -> list[HeldRange]:
    """Return the ranges, with the parts of ranges that `plan_batch` has split joined again."""
    joined: list[HeldRange] = []
    for held in ranges:
        if (
            joined
            and held._replace(first_offset=0) == joined[-1]._replace(first_offset=0, last_offset=held.last_offset)
            and held.first_offset == joined[-1].last_offset + 1
        ):
            joined[-1] = joined[-1]._replace(last_offset=held.last_offset)
        else:
            joined.append(held)
    return joined
