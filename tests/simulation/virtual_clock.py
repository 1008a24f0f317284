"""Virtual time: a queue of events, ordered by (time, sequence). Time passes only through it.

Code written as one call, such as the commit steps of a micro-batch, takes time with `sleep`, which runs other events
meanwhile and then returns. Sleepers are nested: one that sleeps inside another's sleep continues first, so the outer
one wakes late, like a paused process. A component that must not be called during its own work (an event loop) has only
short events and never sleeps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

Action = Callable[[], object]

#: The begin of virtual time: 2026-01-01, in milliseconds since the epoch.
EPOCH_MS = 1_767_225_600_000


class Event:
    """A future event; `cancel` removes it."""

    __slots__ = ("action",)

    def __init__(self, action: Action | None) -> None:
        self.action = action

    def cancel(self) -> None:
        """Remove the event; without effect if it has happened."""
        self.action = None


class Scheduler:
    """Events by time in milliseconds since the epoch, with microsecond precision. `random` is the run's only source of
    chance."""

    def __init__(self, seed: int, start_ms: int = EPOCH_MS) -> None:
        self.random = Random(seed)
        self.start_ms = start_ms
        self._now_us = start_ms * 1000
        self._sequence = 0
        self._events: list[tuple[int, int, Event]] = []
        self.happened = 0

    @property
    def now_ms(self) -> int:
        """Return the time in whole milliseconds since the epoch."""
        return self._now_us // 1000

    @property
    def now_us(self) -> int:
        """Return the time in microseconds since the epoch."""
        return self._now_us

    def monotonic_s(self) -> float:
        """Return the seconds since the run began."""
        return (self._now_us - self.start_ms * 1000) / 1_000_000

    def at(self, time_ms: float, action: Action) -> Event:
        """Schedule `action` for a time, or now if that has passed; actions of the same time keep their order."""
        event = Event(action)
        self._sequence += 1
        heapq.heappush(self._events, (max(self._now_us, round(time_ms * 1000)), self._sequence, event))
        return event

    def after(self, delay_ms: float, action: Action) -> Event:
        """Schedule `action` after a delay."""
        return self.at(self._now_us / 1000 + max(0.0, delay_ms), action)

    def sleep(self, delay_ms: float) -> None:
        """Let time pass inside of an event; see the module's docstring."""
        self.run_until(self._now_us / 1000 + max(0.0, delay_ms))

    def run_until(self, time_ms: float) -> None:
        """Run all events up to and including a time."""
        end_us = round(time_ms * 1000)
        while self._run_next(end_us):
            pass
        self._now_us = max(self._now_us, end_us)

    def run_while(self, condition: Callable[[], bool], end_ms: float) -> None:
        """Run events while `condition` holds, but none after `end_ms`."""
        end_us = round(end_ms * 1000)
        while condition() and self._run_next(end_us):
            pass

    def _run_next(self, end_us: int) -> bool:
        """Run the next event unless it is after a time; return whether there was one."""
        if not self._events or self._events[0][0] > end_us:
            return False
        time_us, _, event = heapq.heappop(self._events)
        if event.action is not None:
            self._now_us = max(self._now_us, time_us)
            action, event.action = event.action, None
            self.happened += 1
            action()
        return True
