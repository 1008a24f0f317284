"""The time of a share consumer: what it reads and what it waits for.

A connector has the clock of its consumers. `SteadyClock` is the real one; a test may have one that it advances.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from sharegroup.kafka_clients.steady_time import steady_ms


class Clock(Protocol):
    """A clock that does not step back."""

    def now_ms(self) -> int:
        """Return the time in milliseconds."""

    async def wait(self, event: asyncio.Event, until_ms: int | None, is_idle: bool = False) -> None:
        """Wait until the event is set, or until `now_ms()` reaches `until_ms` (None: without a limit).

        `is_idle`: a handler loop waits for its next due time, and no call of the handler or renewal is in progress. A
        clock for tests may skip such a wait.
        """


class SteadyClock:
    """The clock of this machine, or another one that asyncio's timers follow."""

    def __init__(self, now_ms: Callable[[], int] = steady_ms) -> None:
        self.now_ms = now_ms

    async def wait(self, event: asyncio.Event, until_ms: int | None, is_idle: bool = False) -> None:
        """Implement Clock."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if until_ms is None else max(0, until_ms - self.now_ms()) / 1000):
                await event.wait()
