"""The event loop's clock set forward: what takes seconds happens at once, and no test depends on a busy machine."""

from __future__ import annotations

import asyncio


def advance(seconds: float) -> None:
    """Set the running loop's clock forward: all its timers are due earlier, a deadline of the test too."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]
