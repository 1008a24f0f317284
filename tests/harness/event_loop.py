"""The event loop of a test, which is either a coroutine or runs the loop itself while it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def until(is_true: Callable[[], Any], pause_s: float = 0.0) -> None:
    """Wait until something is true."""
    while not is_true():
        await asyncio.sleep(pause_s)


class EventLoop(asyncio.Runner):
    """An event loop that runs only while a test waits."""

    def start(self, awaitable: Awaitable[Result]) -> asyncio.Future[Result]:
        """Return the future result."""
        return asyncio.ensure_future(awaitable, loop=self.get_loop())

    def finish(self, awaitable: Awaitable[Result]) -> Result:
        """Wait for a result."""
        return self.get_loop().run_until_complete(awaitable)

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function that requires a running loop."""

        async def call() -> Result:
            return function()

        return self.finish(call())

    def until(self, is_true: Callable[[], Any]) -> None:
        """Wait until something is true."""
        self.finish(until(is_true))

    def settle(self) -> None:
        """Wait until whatever can happen now has happened."""
        for _ in range(10):
            self.finish(asyncio.sleep(0))
