"""Where the functions of the application run that a consumer calls: deserializers and the commit callback.

The loop of a consumer sends heartbeats and renewals, which such a function delays if it runs there. Those of a
ShareConsumer run on the thread that called the consumer and waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class LoopCaller:
    """Runs functions at once, because the caller of an AsyncShareConsumer runs on the event loop itself."""

    def post(self, function: Callable[[], object]) -> None:
        """Run a function that raises nothing, perhaps later."""
        function()

    async def run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Run a function, and return its result or raise its exception."""
        return function(*arguments)


class CallerThread(LoopCaller):
    """The thread that calls `result`. The loop calls the other methods."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def result(self, future: Future[_Result]) -> _Result:
        """Run functions until the future is done, and return its result. An interrupt (Ctrl-C) cancels the future."""

        def end() -> None:
            """Mark the end of this call; of an interrupted call, it has no effect."""

        future.add_done_callback(lambda _: self._calls.put(end))
        try:
            while (call := self._calls.get()) is not end:
                call()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def post(self, function: Callable[[], object]) -> None:
        """Run a function, without waiting for it."""
        self._calls.put(function)

    async def run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Wait until the thread has run a function."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[_Result] = loop.create_future()  # costs less than a Future of threads

        def call() -> None:
            if not result.cancelled():
                try:
                    loop.call_soon_threadsafe(finish, result.set_result, function(*arguments))
                except Exception as error:  # noqa: BLE001 - it is raised by `run`
                    loop.call_soon_threadsafe(finish, result.set_exception, error)

        def finish(set_outcome: Callable[[Any], None], outcome: object) -> None:
            if not result.cancelled():
                set_outcome(outcome)

        self._calls.put(call)
        return await result
