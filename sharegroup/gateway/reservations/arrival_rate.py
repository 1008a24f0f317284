"""The rate of events during about the last second. No clock; times are passed in."""

from __future__ import annotations

import math

_MEMORY_MS = 1_000


class ArrivalRate:
    """The current rate of events. Older events count less, so the rate is mostly that of the last second."""

    def __init__(self) -> None:
        self._count = 0.0
        self._at_ms = 0

    def record(self, events: int, now_ms: int) -> None:
        """Count a number of events that happened at `now_ms`."""
        self._count = self.per_second(now_ms) + events
        self._at_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """Return the rate in events per second."""
        return self._count * math.exp(-max(0, now_ms - self._at_ms) / _MEMORY_MS)
