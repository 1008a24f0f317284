"""The event loop of a test, which is either a coroutine or runs the loop itself while it waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


#: The first looks follow each other; later ones have a pause between them, for what other processes do.
_QUICK_LOOKS, _MAX_LOOKS, _PAUSE_S = 1_000, 20_000, 0.005


async def until(is_true: Callable[[], Any]) -> None:
    """Wait until something is true. Raises TimeoutError in a test that hangs, after `_MAX_LOOKS`."""
    for look in range(_MAX_LOOKS):
        if is_true():
            return
        await asyncio.sleep(0 if look < _QUICK_LOOKS else _PAUSE_S)
    raise TimeoutError("what the test waits for does not happen")


async def settle() -> None:
    """Wait until whatever can happen now has happened."""
    for _ in range(10):
        await asyncio.sleep(0)


def advance(seconds: float) -> None:
    """Set the running loop's clock forward; timers that are due by then run immediately."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


class EventLoop:
    """An event loop that runs only while a test waits."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def __enter__(self) -> EventLoop:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def start(self, awaitable: Awaitable[Result]) -> asyncio.Future[Result]:
        """Return the future result."""
        return asyncio.ensure_future(awaitable, loop=self._runner.get_loop())

    def finish(self, awaitable: Awaitable[Result]) -> Result:
        """Wait for a result."""
        return self._runner.get_loop().run_until_complete(awaitable)

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function that requires a running loop."""

        async def call() -> Result:
            return function()

        return self.finish(call())

    @contextlib.contextmanager
    def entering(
        self, open_context: Callable[Arguments, contextlib.AbstractAsyncContextManager[Result]]
    ) -> Iterator[Callable[Arguments, Awaitable[Result]]]:
        """Yield a function that enters a new context and returns its value; all of them end with this context."""
        entered = contextlib.AsyncExitStack()

        async def enter(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            return await entered.enter_async_context(open_context(*args, **kwargs))

        try:
            yield enter
        finally:
            self.finish(entered.aclose())

    def collect_problems(self) -> list[object]:
        """Return a list of what is reported to the loop from now on, such as exceptions that nobody awaited."""
        problems: list[object] = []
        self._runner.get_loop().set_exception_handler(lambda _, context: problems.append(context))
        return problems

    def until(self, is_true: Callable[[], Any]) -> None:
        """Wait until something is true."""
        self.finish(until(is_true))

    def settle(self) -> None:
        """Wait until whatever can happen now has happened."""
        self.finish(settle())
