"""Runs a handler loop on an AsyncShareConsumer: polls, calls, renewals and acknowledgements.

The decisions are in `work_queue`. This file has the tasks and the waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sharegroup.client.handlers.registered import RegisteredHandler, RunCoroutine
from sharegroup.client.handlers.work_queue import Call, WorkQueue
from sharegroup.client.records import Possession, Record
from sharegroup.kafka_clients.steady_time import steady_ms
from sharegroup.types import AcknowledgeType

if TYPE_CHECKING:
    from sharegroup.client.async_consumer import AsyncShareConsumer

#: The longest wait of a turn, and the wait while the result of a renewal is expected.
_TURN_S, _RENEWING_S = 0.5, 0.02


class HandlerRunner:
    """One run of a handler. `stop` may be called from any thread."""

    def __init__(
        self, consumer: AsyncShareConsumer, registered: RegisteredHandler, run_coroutine: RunCoroutine
    ) -> None:
        self._consumer, self._options = consumer, registered.options
        self._queue = WorkQueue(registered.options)
        self._pool = ThreadPoolExecutor(registered.options.concurrency, "sharegroup-handler")
        self._handle = registered.bind(self._pool, run_coroutine)
        self._calls: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._is_stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Make the run end: no record is fetched and no call is started from now on."""
        self._is_stopped = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    async def run(self, drain_s: float) -> None:
        """Poll and call until `stop`; then wait up to `drain_s` for calls, acknowledge, and close the consumer.

        Raises what polls raise, after the same steps.
        """
        self._loop = asyncio.get_running_loop()
        self._consumer.begin_handling()
        poll: asyncio.Task[list[Record[Any]]] | None = None
        try:
            while not self._is_stopped:
                self._turn()
                if poll is None and not self._queue.room.is_empty:
                    self._consumer.limit_fetches(*self._queue.room)
                    poll = asyncio.create_task(self._consumer.poll(_TURN_S))
                    poll.add_done_callback(lambda _: self._wake.set())
                await self._wait(_TURN_S)
                if poll is not None and poll.done():
                    self._queue.add(poll.result(), steady_ms())
                    poll = None
        finally:
            if poll is not None:
                poll.cancel()
                await asyncio.wait([poll])
            await self._drain(drain_s)
            await self._consumer.close()
            self._pool.shutdown(wait=False)

    def _turn(self) -> None:
        """Do all that is due now."""
        self._consumer.note_handling()
        self._queue.update(self._consumer.possession, steady_ms())
        acknowledgements = self._queue.pop_acknowledgements(steady_ms())
        renewals = self._queue.due_renewals(steady_ms())
        for record, kind in (*acknowledgements, *((record, AcknowledgeType.RENEW) for record in renewals)):
            if self._consumer.possession(record) is Possession.HELD:
                self._consumer.acknowledge(record, kind)
        if acknowledgements or renewals:
            self._consumer.commit_async()
        for call in self._queue.start_calls(steady_ms()):
            task = asyncio.create_task(self._call(call))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _call(self, call: Call) -> None:
        errors = await self._handle(call.records)
        self._queue.finish_call(call, errors, steady_ms())
        self._wake.set()

    async def _drain(self, drain_s: float) -> None:
        self._queue.drain()
        end_s = time.monotonic() + drain_s
        while self._queue.running and time.monotonic() < end_s:
            self._turn()
            await self._wait(min(_TURN_S, end_s - time.monotonic()))
        self._queue.abandon()
        for task in self._calls:
            task.cancel()
        self._turn()
        end_s = time.monotonic() + 1
        while self._queue.is_renewing and time.monotonic() < end_s:  # their acknowledgements wait for the renewals
            await self._wait(_RENEWING_S)
            self._turn()
        await self._consumer.commit_sync(_TURN_S * 10)

    async def _wait(self, most_s: float) -> None:
        """Wait until a call or a poll has ended, `stop` was called, or something is due by time."""
        due_ms = self._queue.next_ms()
        if due_ms is not None:
            most_s = min(most_s, max(0, due_ms - steady_ms()) / 1000)
        if self._queue.is_renewing:
            most_s = min(most_s, _RENEWING_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(most_s, 0)):
                await self._wake.wait()
        self._wake.clear()
