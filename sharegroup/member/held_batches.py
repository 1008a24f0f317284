"""What a member holds: queued ranges, one batch on offer, one batch running. No clock and no Kafka.

Locks end by the brokers' clocks, and `now_ms` is of the member's own clock, which nobody sets. `HeldBatches.ahead_ms`
is the difference; the times of locks are compared with `HeldBatches.brokers_ms`.

    granted --> queued <--> offered --claimed--> running --> acknowledged
                  |
                  +--> given back (`unacquire`) when half of the lock is gone

Only the running batch's locks are renewed, and not for ever; those of a static member at once, so that they outlast a
restart from then on. What waits in front of a slow handler is given back for
others to have, and the member is *stalled* until its handler is through: it holds nothing else, and asks for nothing.
So it is when it is granted what its handler still has: these locks were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Protocol

from sharegroup.member.batch_plan import plan_batch
from sharegroup.member.ranges import AssignedPartition, HeldRange, OfferedBatch, records_in
from sharegroup.protocol.range_map import RangeMap


class Offers(Protocol):
    """The way to the source: `offer_file.OfferFile`."""

    def put(self, batch: OfferedBatch) -> None:
        """Offer a batch; the one before is not on offer any more."""

    def is_claimed(self) -> bool:
        """Whether the offer is gone."""

    def withdraw(self) -> bool:
        """Take it back, if it is not claimed yet."""

    def close(self) -> None:
        """There will be no other."""


@dataclass
class RunningBatch:
    """The batch that Spark has, since `began_ms` of the member's clock. All other times are the brokers'.

    `renewable` are the ranges whose locks are renewed at `renew_at_ms`, `lock_deadline_ms` is when the first of their
    locks ends; `is_lost`: others may have got some of its records;
    `gone` are those of its share-partitions that are no more; `locks` is when the lock of each offset ends, as far as
    that was answered."""

    seq: int
    ranges: tuple[HeldRange, ...]
    began_ms: int
    brokers_ms: InitVar[int | None] = None
    renewable: set[HeldRange] = field(init=False)
    lock_deadline_ms: int = field(init=False)
    renew_at_ms: int = field(init=False)
    is_renewing: bool = False
    is_lost: bool = False
    gone: set[AssignedPartition] = field(default_factory=set)
    locks: dict[AssignedPartition, RangeMap[int]] = field(init=False, default_factory=dict)

    def __post_init__(self, brokers_ms: int | None) -> None:
        now_ms = self.began_ms if brokers_ms is None else brokers_ms
        self.locked_until(min((held.lock_deadline_ms for held in self.ranges), default=0), now_ms)
        self.renewable = set(self.ranges)
        self.take_locks(self.ranges)

    def has(self, wanted: HeldRange) -> bool:
        """Whether it has an offset of this range."""
        locks = self.locks.get(wanted.share_partition, RangeMap())
        return any(True for _ in locks.items(wanted.first_offset, wanted.last_offset))

    def is_held(self, now_ms: int) -> bool:
        """Whether nobody else can have got any of it: an acknowledgement, so a renewal too, counts from its append."""
        return not self.is_lost and not self.gone and (self.is_renewing or now_ms < self.lock_deadline_ms)

    def renewal_appended(self, now_ms: int) -> None:
        """A renewal is in the request topic; when that was in time, its answer may come late."""
        self.is_renewing |= now_ms < self.lock_deadline_ms

    def take_renewal(self, renewed: Collection[HeldRange], is_refused: bool, now_ms: int) -> int:
        """Go on with what was renewed; how many records were not.

        Those that were passed over while their locks cannot have been over are no loss: the log's start went past them.
        """
        missing = records_in(self.renewable) - records_in(renewed)
        self.is_lost |= is_refused or (missing > 0 and now_ms >= self.lock_deadline_ms)
        self.is_renewing = False
        self.renewable = set(renewed)
        if renewed:
            self.locked_until(min(held.lock_deadline_ms for held in renewed), now_ms)
        return missing

    def without_gone(self) -> tuple[HeldRange, ...]:
        """Begin with the batch; nothing has been done to what went before, so it is left out."""
        self.ranges = tuple(held for held in self.ranges if held.share_partition not in self.gone)
        self.gone.clear()
        return self.ranges

    def forget(self, is_gone: Callable[[AssignedPartition], bool]) -> None:
        """These share-partitions are no more: there is nothing to renew, and nothing of them may be handled."""
        self.gone |= {held.share_partition for held in self.ranges if is_gone(held.share_partition)}
        self.renewable = {held for held in self.renewable if held.share_partition not in self.gone}

    def give_up(self) -> None:
        """Renew no more: the records go to others when their locks run out."""
        self.renewable.clear()
        self.is_lost = True

    def take_locks(self, ranges: Iterable[HeldRange]) -> None:
        """These locks were granted or renewed, also when that is of no use any more."""
        for held in ranges:
            locks = self.locks.setdefault(held.share_partition, RangeMap())
            locks.assign(held.first_offset, held.last_offset, held.lock_deadline_ms)

    def locked_until(self, deadline_ms: int, now_ms: int) -> None:
        """The locks end then; when half of that is gone they are to be renewed."""
        self.lock_deadline_ms = deadline_ms
        self.renew_at_ms = now_ms + max(0, deadline_ms - now_ms) // 2


class HeldBatches:
    """All that a member holds, from the grant to the acknowledgement."""

    def __init__(self, offers: Offers, incarnation: str, max_records: int, renews_at_once: bool = False) -> None:
        self._renews_at_once = renews_at_once
        self._offers, self._incarnation, self._max_records = offers, incarnation, max_records
        self._queued: list[HeldRange] = []
        self._unwanted: list[HeldRange] = []
        #: Of a batch of an earlier process that is about to run again.
        self._awaited: tuple[HeldRange, ...] = ()
        self._offered: OfferedBatch | None = None
        self._seq = 0
        self._lock_ms = 0
        self._offering = True
        self._has_grown = False
        #: The group's `share.delivery.count.limit`, 0 until a record is granted that was delivered before.
        self.delivery_count_limit = 0
        #: How far the brokers' clocks are ahead of the member's.
        self.ahead_ms = 0
        self.running: RunningBatch | None = None
        self.is_stalled = False

    def brokers_ms(self, now_ms: int) -> int:
        """The brokers' time, by which locks end."""
        return now_ms + self.ahead_ms

    @property
    def waiting_records(self) -> int:
        """How many records are held that no batch has begun with."""
        return records_in(self._queued) + self.offered_records

    @property
    def offered_records(self) -> int:
        """How many of them are on offer."""
        return records_in(self._offered.ranges) if self._offered else 0

    def has(self, wanted: HeldRange) -> bool:
        """Whether an offset of this range is held in any of the ways."""
        offered = self._offered.ranges if self._offered else ()
        is_running = self.running is not None and self.running.has(wanted)
        return is_running or any(wanted.overlaps(held) for held in (*self._queued, *offered))

    def add(self, granted: Iterable[HeldRange], now_ms: int) -> None:
        """Queue what a fetch was granted; what is past its lock comes back by itself."""
        for held in granted:
            self._lock_ms = held.lock_deadline_ms - self.brokers_ms(now_ms)
            if self.running is not None and self.running.has(held):
                self._unwanted.append(held)
                self.running.is_lost = self.is_stalled = True
            elif self._lock_ms > 0:
                self._queued.append(held)
                self._has_grown = True

    def step(self, now_ms: int) -> list[HeldRange]:
        """Move ranges on, and return those to give back."""
        self.see_claim(now_ms)
        given_back = self._overdue(now_ms)
        unwanted, self._unwanted = self._unwanted, []
        if given_back and self.running is not None:
            self.is_stalled = True
        if self.is_stalled:
            self._withdraw(now_ms)
            given_back += self._give_back(now_ms, self._is_spare)
        if self._offering and self._offered is None and self._queued:
            plan = plan_batch(self._queued, self._max_records, self.delivery_count_limit)
            self._queued = list(plan.rest)
            self._seq += 1
            self._offered = OfferedBatch(self._seq, self._incarnation, plan.batch)
            self._offers.put(self._offered)
            self._has_grown = False
        return given_back + unwanted

    def see_claim(self, now_ms: int) -> None:
        """Notice that the source has taken the batch on offer."""
        if self._offered is not None and self._offers.is_claimed():
            self._claimed(now_ms)

    def await_run(self, ranges: Sequence[HeldRange]) -> None:
        """A batch of an earlier process is renewed, to run again: what this process was granted of it is kept for it.

        A row that gave it back would come behind the renewal.
        """
        self._awaited = tuple(ranges)

    def run(self, seq: int, ranges: Sequence[HeldRange], now_ms: int) -> None:
        """A batch of an earlier process runs again; what of it this process was granted meanwhile is not queued."""
        self._awaited = ()
        self._withdraw(now_ms)
        self._queued = _without(self._queued, ranges)
        self.running = RunningBatch(seq, tuple(ranges), now_ms, self.brokers_ms(now_ms))

    def finish(self, seq: int) -> None:
        """The running batch is through."""
        if self.running is not None and self.running.seq == seq:
            self.running = None
            self.is_stalled = False

    def stop_offering(self, now_ms: int) -> None:
        """No batch is offered any more; what was on offer is either the source's now, or queued again."""
        self._offering = False
        self._withdraw(now_ms)
        self._offers.close()

    def give_all_back(self, now_ms: int) -> list[HeldRange]:
        """Everything that is queued and still locked, which then is not held any more."""
        return self._give_back(now_ms, lambda held: True)

    def forget(self, now_ms: int) -> None:
        """The member was fenced: nothing that is queued is its own any more."""
        self._withdraw(now_ms)
        self._queued = []

    def forget_gone(self, is_gone: Callable[[AssignedPartition], bool], now_ms: int) -> None:
        """These share-partitions are no more, nor what was acquired of them."""
        offered = self._offered.ranges if self._offered else ()
        if any(is_gone(held.share_partition) for held in offered):
            self._withdraw(now_ms)
        self._queued = [held for held in self._queued if not is_gone(held.share_partition)]
        if self.running is not None:
            self.running.forget(is_gone)

    def _overdue(self, now_ms: int) -> list[HeldRange]:
        """Take out what has half of its lock behind it; a small offer is withdrawn too, to become a bigger one."""
        latest_ms = self.brokers_ms(now_ms) + self._lock_ms // 2
        offered = self._offered.ranges if self._offered else ()
        is_small = self._has_grown and records_in(offered) < self._max_records
        if is_small or any(held.lock_deadline_ms < latest_ms for held in offered):
            self._withdraw(now_ms)
        return self._give_back(now_ms, lambda held: held.lock_deadline_ms < latest_ms and self._is_spare(held))

    def _is_spare(self, held: HeldRange) -> bool:
        return not any(held.overlaps(awaited) for awaited in self._awaited)

    def _give_back(self, now_ms: int, which: Callable[[HeldRange], bool]) -> list[HeldRange]:
        """Take these out of the queue; those whose locks are over go back by themselves."""
        taken = [held for held in self._queued if which(held)]
        if taken:
            self._queued = [held for held in self._queued if not which(held)]
        return [held for held in taken if held.lock_deadline_ms > self.brokers_ms(now_ms)]

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


def _without(queued: Iterable[HeldRange], taken: Iterable[HeldRange]) -> list[HeldRange]:
    """The parts of what is queued that are not taken."""
    left: dict[AssignedPartition, RangeMap[HeldRange]] = {}
    for held in queued:
        left.setdefault(held.share_partition, RangeMap()).assign(held.first_offset, held.last_offset, held)
    for held in taken:
        left.setdefault(held.share_partition, RangeMap()).discard(held.first_offset, held.last_offset)
    return [
        held._replace(first_offset=first, last_offset=last) for found in left.values() for first, last, held in found
    ]


def _rejoined(ranges: Iterable[HeldRange]) -> list[HeldRange]:
    """Parts of a range that a plan had split become one again."""
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
