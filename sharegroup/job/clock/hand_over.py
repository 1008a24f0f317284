"""What the driver tells the Python source, which is another process of the driver.

Each batch says what it has changed (`HandOverChange`), and the source adds it to what it knows (`HandOver`): both cost
what the batch touched. `hand_over_file` carries it from one process to the other. Losing it costs nothing: after a
start the source ticks every key once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sharegroup.job.clock.deadlines import Deadlines
from sharegroup.kafka_clients.job_clock import ClockReading
from sharegroup.types import WaitsFor


class HandOverChange(NamedTuple):
    """What is other than before: `deadlines`, when a key wants a tick (ms; None: it wants none), `waiting`, what
    demands that stand at a key wait for, `positions`, the next unread offset of request partitions, and `clock`, the
    brokers' time (None: as before)."""

    deadlines: Mapping[str, int | None] = {}
    waiting: Mapping[str, WaitsFor] = {}
    positions: Mapping[int, int] = {}
    clock: ClockReading | None = None


class HandOver:
    """What all changes add up to: `deadlines`, the keys at which demands stand, the next unread offset of each request
    partition, all batches before it being committed, and the newest reading of the brokers' time."""

    def __init__(
        self,
        deadlines: Mapping[str, int] | None = None,
        waiting: Mapping[str, WaitsFor] | None = None,
        positions: Mapping[int, int] | None = None,
        clock: ClockReading | None = None,
    ) -> None:
        self.deadlines = Deadlines(deadlines or {})
        self.waiting = dict(waiting or {})
        self.positions = dict(positions or {})
        self.clock = clock

    def brokers_ms(self, steady_ms: int) -> int:
        """Return a time that no broker was behind at a steady time; 0 while the brokers' time is not known."""
        return 0 if self.clock is None else self.clock.earliest_at(steady_ms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HandOver) and self.whole() == other.whole()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"HandOver{tuple(self.whole())}"

    def apply(self, change: HandOverChange) -> None:
        """Add a batch's words; a key without a deadline any more is forgotten."""
        for key, deadline_ms in change.deadlines.items():
            self.deadlines.set(key, deadline_ms)
        for key, waits in change.waiting.items():
            if waits:
                self.waiting[key] = WaitsFor(waits)
            else:
                self.waiting.pop(key, None)
        self.positions.update(change.positions)
        if change.clock is not None:
            self.clock = change.clock

    def news_of(self, change: HandOverChange) -> HandOverChange:
        """What of a change is not known yet."""
        return HandOverChange(
            {key: deadline for key, deadline in change.deadlines.items() if self.deadlines.get(key) != deadline},
            {key: waits for key, waits in change.waiting.items() if self.waiting.get(key, WaitsFor.NOTHING) != waits},
            {p: offset for p, offset in change.positions.items() if self.positions.get(p) != offset},
            change.clock,
        )

    def whole(self) -> HandOverChange:
        """All of it, as a change to nothing."""
        waiting = dict(sorted(self.waiting.items()))
        return HandOverChange(self.deadlines.all(), waiting, dict(self.positions), self.clock)
