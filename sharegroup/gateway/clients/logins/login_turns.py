"""Threads that check passwords. Client addresses are served in turn.

Checking a password takes several milliseconds, by design of the SASL mechanisms. Each address has at most one step in
progress. After a failed login, the address is blocked for a while, even if the client disconnects. An attacker can
therefore try only a few passwords per second and address, regardless of the number of connections. Other clients do not
wait long: a login step waits for at most one step of each other address.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from sharegroup.gateway.clients.fair_turns import FairTurns

T = TypeVar("T")


class _Turn(NamedTuple):
    """A login step that waits for a thread. The future `granted` completes when the step may start."""

    address: str
    granted: asyncio.Future[None]


#: Maximum number of passwords that are checked at the same time. At least one CPU is left for serving clients, if the
#: machine has several.
THREADS = min(2, max(1, (os.cpu_count() or 1) - 1))


class LoginTurns:
    """The threads that run login steps. Client addresses are served in turn. Must be used on one event loop.

    After a failed login, the response is delayed by `failed_delay_s` seconds. During this time, no other login step of
    the same address starts.
    """

    def __init__(self, failed_delay_s: float, threads: int = THREADS) -> None:
        self._failed_delay_s, self._free = failed_delay_s, threads
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="login")
        self._waiting: FairTurns[_Turn] = FairTurns()
        self._busy: set[str] = set()

    async def run(self, address: str, step: Callable[[], T], has_failed: Callable[[], bool]) -> T:
        """Wait for the turn of this address, run `step` on a thread, and return its result.

        If `has_failed` returns True after the step, the result is delayed by `failed_delay_s`.
        """
        turn = _Turn(address, asyncio.get_running_loop().create_future())
        self._waiting.add(address, turn)
        self._start_next()
        try:
            await turn.granted
        except asyncio.CancelledError:
            self._waiting.discard(address, turn)
            if turn.granted.done() and not turn.granted.cancelled():  # granted and cancelled at the same moment
                self._free_thread()
                self._free_address(address)
            raise
        # A client that disconnects during the step still keeps the thread and the address busy.
        return await asyncio.shield(asyncio.ensure_future(self._work(address, step, has_failed)))

    def close(self) -> None:
        """Start no further steps. Does not wait for steps in progress."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _work(self, address: str, step: Callable[[], T], has_failed: Callable[[], bool]) -> T:
        try:
            try:
                result = await asyncio.get_running_loop().run_in_executor(self._threads, step)
            finally:
                self._free_thread()
            if has_failed():
                await asyncio.sleep(self._failed_delay_s)
            return result
        finally:
            self._free_address(address)

    def _start_next(self) -> None:
        while self._free:
            turn = self._waiting.pop_first(lambda address, _: address not in self._busy)
            if turn is None:
                return
            if not turn.granted.cancelled():
                self._free -= 1
                self._busy.add(turn.address)
                turn.granted.set_result(None)

    def _free_thread(self) -> None:
        self._free += 1
        self._start_next()

    def _free_address(self, address: str) -> None:
        self._busy.discard(address)
        self._start_next()
