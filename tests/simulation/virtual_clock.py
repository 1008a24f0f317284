"""Virtual time: a queue of events, ordered by (time, sequence), and nothing else that could pass.

Code that is written as one call - the commit steps of a micro-batch - takes time by `sleep`, which runs what else
happens meanwhile and then returns. Sleepers are nested: one that sleeps inside another's sleep goes on first, so the
outer one wakes late, as a paused process does. Who must not be called in the middle of its own work (an event loop)
has only short events, and never sleeps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

Action = Callable[[], object]

#: Where virtual time begins: 2026-01-01, in milliseconds since the epoch.
EPOCH_MS = 1_767_225_600_000


class Event:
    """Something that will happen; `cancel` lets it not happen."""

    __slots__ = ("action",)

    def __init__(self, action: Action | None) -> None:
        self.action = action

    def cancel(self) -> None:
        """Let it not happen; harmless when it has."""
        self.action = None


class Scheduler:
    """Events by time. Times are milliseconds since the epoch, kept to the microsecond; `random` is the run's only
    source of chance."""

    def __init__(self, seed: int, start_ms: int = EPOCH_MS) -> None:
        self.random = Random(seed)
        self.start_ms = start_ms
        self._now_us = start_ms * 1000
        self._sequence = 0
        self._events: list[tuple[int, int, Event]] = []
        self.happened = 0

    @property
    def now_ms(self) -> int:
        """The time in whole milliseconds since the epoch."""
        return self._now_us // 1000

    @property
    def now_us(self) -> int:
        """The time in microseconds since the epoch."""
        return self._now_us

    def monotonic_s(self) -> float:
        """Seconds since the run began."""
        return (self._now_us - self.start_ms * 1000) / 1_000_000

    def at(self, time_ms: float, action: Action) -> Event:
        """Let `action` happen at a time, or now if that is past; of the same time, what was said first is first."""
        event = Event(action)
        self._sequence += 1
        heapq.heappush(self._events, (max(self._now_us, round(time_ms * 1000)), self._sequence, event))
        return event

    def after(self, delay_ms: float, action: Action) -> Event:
        """Let `action` happen after a while."""
        return self.at(self._now_us / 1000 + max(0.0, delay_ms), action)

    def sleep(self, delay_ms: float) -> None:
        """Let time pass inside of an event; see the module."""
        self.run_until(self._now_us / 1000 + max(0.0, delay_ms))

    def run_until(self, time_ms: float) -> None:
        """Let everything happen up to and including a time."""
        end_us = round(time_ms * 1000)
        while self._run_next(end_us):
            pass
        self._now_us = max(self._now_us, end_us)

    def run_while(self, condition: Callable[[], bool], end_ms: float) -> None:
        """Let everything happen until `condition` does not hold any more, but nothing after `end_ms`."""
        end_us = round(end_ms * 1000)
        while condition() and self._run_next(end_us):
            pass

    def _run_next(self, end_us: int) -> bool:
        """Run the next event unless it is after a time; whether there was one."""
        if not self._events or self._events[0][0] > end_us:
            return False
        time_us, _, event = heapq.heappop(self._events)
        if event.action is not None:
            self._now_us = max(self._now_us, time_us)
            action, event.action = event.action, None
            self.happened += 1
            action()
        return True
