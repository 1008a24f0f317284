"""What a member holds: queued ranges, one batch on offer, one batch running. No clock and no Kafka.

    granted --> queued <--> offered --claimed--> running --> acknowledged
                  |
                  +--> given back (`unacquire`) when half of the lock is gone

Only the running batch's locks are renewed. What waits in front of a slow handler is given back for others to have, and
the member is *stalled* until its handler is through: it holds nothing else, and asks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sharegroup.spark.share_consumer.batch_plan import plan_batch
from sharegroup.spark.share_consumer.ranges import HeldRange, OfferedBatch


class Offers(Protocol):
    """The way to the source: `offer_file.OfferFile`."""

    def put(self, batch: OfferedBatch) -> None:
        """Offer a batch."""

    def is_claimed(self) -> bool:
        """Whether the offer is gone."""

    def withdraw(self) -> bool:
        """Take it back, if it is not claimed yet."""

    def close(self) -> None:
        """There will be no other."""


@dataclass
class RunningBatch:
    """The batch that Spark has; `renewable` are the ranges whose locks are renewed at `renew_at_ms`."""

    seq: int
    ranges: tuple[HeldRange, ...]
    renew_at_ms: int
    renewable: set[HeldRange] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.renewable = set(self.ranges)


class Holdings:
    """See the module."""

    def __init__(self, offers: Offers, incarnation: str, max_records: int) -> None:
        self._offers, self._incarnation, self._max_records = offers, incarnation, max_records
        self._queued: list[HeldRange] = []
        self._offered: OfferedBatch | None = None
        self._seq = 0
        self._lock_ms = 0
        self._offering = True
        self._has_grown = False
        self.running: RunningBatch | None = None
        self.is_stalled = False

    @property
    def waiting_records(self) -> int:
        """How many records are held that no batch has begun with."""
        offered = self._offered.ranges if self._offered else ()
        return sum(held.size for held in (*self._queued, *offered))

    def add(self, granted: Iterable[HeldRange], now_ms: int) -> None:
        """Queue what a fetch was granted; what is past its lock comes back by itself."""
        for held in granted:
            self._lock_ms = held.lock_deadline_ms - now_ms
            if self._lock_ms > 0:
                self._queued.append(held)
                self._has_grown = True

    def step(self, now_ms: int) -> list[HeldRange]:
        """Move ranges on, and return those to give back."""
        self.see_claim(now_ms)
        given_back = self._overdue(now_ms)
        if given_back and self.running is not None:
            self.is_stalled = True
        if self.is_stalled:
            self._withdraw(now_ms)
            given_back += self.give_all_back(now_ms)
        if self._offering and self._offered is None and self._queued:
            plan = plan_batch(self._queued, self._max_records)
            self._queued = list(plan.rest)
            self._seq += 1
            self._offered = OfferedBatch(self._seq, self._incarnation, plan.batch)
            self._offers.put(self._offered)
            self._has_grown = False
        return given_back

    def see_claim(self, now_ms: int) -> None:
        """Notice that the source has taken the batch on offer."""
        if self._offered is not None and self._offers.is_claimed():
            self._claimed(now_ms)

    def run(self, seq: int, ranges: Sequence[HeldRange], now_ms: int) -> None:
        """A batch of an earlier process runs again."""
        self.running = RunningBatch(seq, tuple(ranges), half_time_ms(ranges, now_ms))

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
        queued, self._queued = self._queued, []
        return [held for held in queued if held.lock_deadline_ms > now_ms]

    def forget(self, now_ms: int) -> None:
        """The member was fenced: nothing that is queued is its own any more."""
        self._withdraw(now_ms)
        self._queued = []

    def _overdue(self, now_ms: int) -> list[HeldRange]:
        """Take out what has half of its lock behind it; a small offer is withdrawn too, to become a bigger one."""
        latest_ms = now_ms + self._lock_ms // 2
        offered = self._offered.ranges if self._offered else ()
        is_small = self._has_grown and sum(held.size for held in offered) < self._max_records
        if is_small or any(held.lock_deadline_ms < latest_ms for held in offered):
            self._withdraw(now_ms)
        overdue = [held for held in self._queued if held.lock_deadline_ms < latest_ms]
        if overdue:
            self._queued = [held for held in self._queued if held.lock_deadline_ms >= latest_ms]
        return [held for held in overdue if held.lock_deadline_ms > now_ms]  # the others have gone back by themselves

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
        ranges = self._offered.ranges
        self.running = RunningBatch(self._offered.seq, ranges, half_time_ms(ranges, now_ms))
        self._offered = None
        self.is_stalled = False


def half_time_ms(ranges: Sequence[HeldRange], now_ms: int) -> int:
    """When half of what is left of the shortest lock will be gone."""
    deadline_ms = min((held.lock_deadline_ms for held in ranges), default=now_ms)
    return now_ms + max(0, deadline_ms - now_ms) // 2


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
