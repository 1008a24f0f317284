"""An event loop on its own thread, for asyncio clients in synchronous code."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class LoopThread:
    """Runs coroutines on an event loop in a daemon thread. The thread starts with the first coroutine."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, work: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        return asyncio.run_coroutine_threadsafe(work, self._started())

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine and return its result, or raise its exception. Ctrl-C cancels the coroutine."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, close: Callable[[], None]) -> None:
        """Call `close` on the event loop, and then end the thread. If no thread was started, do nothing.

        The caller must make sure that no coroutine runs meanwhile.
        """
        if self._loop is None:
            return

        async def ended() -> None:
            close()
            await asyncio.sleep(0)  # lets cancelled and closed work finish

        self.run(ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._loop = None

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True).start()
        return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
