"""Classes that decide on which thread a consumer runs application functions: deserializers and the commit callback.

The event loop of a consumer sends heartbeats and renewals. An application function on this loop would delay them. A
ShareConsumer therefore runs these functions on the application's thread, which is waiting for the call anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class LoopCaller:
    """Runs application functions immediately, on the event loop that calls this object.

    AsyncShareConsumer uses this class, because its application runs on the same event loop.
    """

    def post(self, function: Callable[[], object]) -> None:
        """Run a function (CallerThread only queues it). The function must not raise exceptions."""
        function()

    async def run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Run a function, and return its result or raise its exception."""
        return function(*arguments)


class CallerThread(LoopCaller):
    """Runs application functions on the application's thread, so that they do not block the event loop.

    The application's thread calls `result` and runs the functions there. The event loop calls the other methods.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object]] = SimpleQueue()

    def result(self, future: Future[_Result]) -> _Result:
        """Run the queued functions until the future is done, and return the result of the future.

        An interrupt (Ctrl-C) cancels the future.
        """

        def end() -> None:
            """Do nothing. This function in the queue marks that the future is done.

            Each call of `result` recognizes only its own `end`. The `end` of an earlier, interrupted call is ignored.
            """

        future.add_done_callback(lambda _: self._calls.put(end))
        try:
            while (call := self._calls.get()) is not end:
                call()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def post(self, function: Callable[[], object]) -> None:
        """Queue a function for the application's thread, and return without waiting for it."""
        self._calls.put(function)

    async def run(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """Wait until the application's thread has run a function. Return its result or raise its exception."""
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
