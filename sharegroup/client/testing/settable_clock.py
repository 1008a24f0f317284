"""A clock that a test can advance. Apart from that, it runs like the steady clock of the machine."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sharegroup.kafka_clients.steady_time import steady_ms


@dataclass(eq=False)
class _Wait:
    loop: asyncio.AbstractEventLoop
    timeout: asyncio.Timeout
    until_ms: int


class SettableClock:
    """A clock that a test can advance, for consumers on any number of threads and event loops.

    Attributes:
        skips_delays: whether an idle handler loop advances the clock to the time it waits for, instead of waiting.
    """

    def __init__(self) -> None:
        self.skips_delays = False
        self._advanced_ms = 0
        self._lock = threading.Lock()
        self._waits: set[_Wait] = set()

    def now_ms(self) -> int:
        """Return the machine's steady time in ms, plus the total duration by which the clock was advanced."""
        return steady_ms() + self._advanced_ms

    def advance(self, duration_ms: int) -> None:
        """Advance the clock, and end the waits whose end time has been reached. Any thread may call this."""
        if duration_ms < 0:
            raise ValueError(f"the clock cannot step back: {duration_ms} ms")
        with self._lock:
            self._advanced_ms += duration_ms
            waits = list(self._waits)
        for wait in waits:
            call_soon(wait.loop, self._reschedule, wait)

    async def wait(self, event: asyncio.Event, until_ms: int | None, is_idle: bool = False) -> None:
        """Wait as described in `Clock.wait`. `advance` can end the wait, and `skips_delays` skips an idle wait."""
        if until_ms is None:
            await event.wait()
            return
        if is_idle and self.skips_delays:
            await asyncio.sleep(0)
            if not event.is_set():
                self.advance(max(0, until_ms - self.now_ms()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as timeout:
                wait = _Wait(asyncio.get_running_loop(), timeout, until_ms)
                with self._lock:
                    self._waits.add(wait)
                try:
                    self._reschedule(wait)
                    await event.wait()
                finally:
                    with self._lock:
                        self._waits.discard(wait)

    def _reschedule(self, wait: _Wait) -> None:
        """Set the timeout of a wait to the time that is left. Must be called on the event loop of the wait."""
        if wait in self._waits and not wait.timeout.expired():
            wait.timeout.reschedule(wait.loop.time() + max(0, wait.until_ms - self.now_ms()) / 1000)


def call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: Any) -> None:
    """Call a function on an event loop, from any thread. Does nothing if the loop is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *arguments)
