"""The clock of a share consumer, for reading the time and for waiting.

A consumer uses the clock of its connector. `SteadyClock` is the real clock. A test may use a clock that it advances.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from sharegroup.kafka_clients.steady_time import steady_ms


class Clock(Protocol):
    """A clock that never goes back."""

    def now_ms(self) -> int:
        """Return the time in milliseconds."""

    async def wait(self, event: asyncio.Event, until_ms: int | None, is_idle: bool = False) -> None:
        """Wait until the event is set or `now_ms()` reaches `until_ms`. None means no time limit.

        `is_idle` means that a handler loop only waits for time to pass: no handler call and no renewal is in progress.
        A clock for tests may skip such a wait.
        """


class SteadyClock:
    """A clock that waits with asyncio's timers. By default, its time is the steady clock of the machine."""

    def __init__(self, now_ms: Callable[[], int] = steady_ms) -> None:
        self.now_ms = now_ms

    async def wait(self, event: asyncio.Event, until_ms: int | None, is_idle: bool = False) -> None:
        """Wait with a timer of asyncio, as described in `Clock.wait`. `is_idle` is ignored."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if until_ms is None else max(0, until_ms - self.now_ms()) / 1000):
                await event.wait()
