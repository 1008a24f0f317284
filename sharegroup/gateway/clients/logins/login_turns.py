"""Where passwords are checked: a few threads, in turns by address.

To check a password takes milliseconds, on purpose. Of each address one login is at work at a time, and after one that
failed the address waits for a while, whether its client waits for the answer or not. So who guesses passwords, over
however many connections, makes a few guesses a second for each address that he has; a login from elsewhere waits for at
most one of each of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from sharegroup.gateway.clients.fair_turns import FairTurns

T = TypeVar("T")


class _Turn(NamedTuple):
    """Who waits at an address, and what it waits for."""

    address: str
    came: asyncio.Future[None]


#: Passwords that are checked at the same time: one processor is left to whoever is served.
THREADS = min(2, max(1, (os.cpu_count() or 1) - 1))


class LoginTurns:
    """`failed_delay_s`: how long an address waits after a login that failed, and the login for its answer.

    On one event loop.
    """

    def __init__(self, failed_delay_s: float, threads: int = THREADS) -> None:
        self._failed_delay_s, self._free = failed_delay_s, threads
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="login")
        self._waiting: FairTurns[_Turn] = FairTurns()
        self._busy: set[str] = set()

    async def run(self, address: str, step: Callable[[], T], has_failed: Callable[[], bool]) -> T:
        """What `step` returns, on one of the threads when it is its turn; a failed login's later."""
        turn = _Turn(address, asyncio.get_running_loop().create_future())
        self._waiting.add(address, turn)
        self._begin()
        try:
            await turn.came
        except asyncio.CancelledError:
            self._waiting.discard(address, turn)
            if turn.came.done() and not turn.came.cancelled():  # it came in the moment in which the client went
                self._worked()
                self._rested(address)
            raise
        # Whoever goes away meanwhile keeps the thread and the address busy all the same.
        return await asyncio.shield(asyncio.ensure_future(self._work(address, step, has_failed)))

    def close(self) -> None:
        """Begin no more; what is at work is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _work(self, address: str, step: Callable[[], T], has_failed: Callable[[], bool]) -> T:
        try:
            try:
                answer = await asyncio.get_running_loop().run_in_executor(self._threads, step)
            finally:
                self._worked()
            if has_failed():
                await asyncio.sleep(self._failed_delay_s)
            return answer
        finally:
            self._rested(address)

    def _begin(self) -> None:
        while self._free:
            turn = self._waiting.take(lambda address, _: address not in self._busy)
            if turn is None:
                return
            if not turn.came.cancelled():
                self._free -= 1
                self._busy.add(turn.address)
                turn.came.set_result(None)

    def _worked(self) -> None:
        self._free += 1
        self._begin()

    def _rested(self, address: str) -> None:
        self._busy.discard(address)
        self._begin()
