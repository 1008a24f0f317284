"""The rate of events over the last second or so. No clock."""

from __future__ import annotations

import math

_MEMORY_MS = 1_000


class ArrivalRate:
    """A decaying count: events of the last second count most."""

    def __init__(self) -> None:
        self._count = 0.0
        self._at_ms = 0

    def record(self, events: int, now_ms: int) -> None:
        """Count events."""
        self._count = self.per_second(now_ms) + events
        self._at_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """Return the events per second."""
        return self._count * math.exp(-max(0, now_ms - self._at_ms) / _MEMORY_MS)
