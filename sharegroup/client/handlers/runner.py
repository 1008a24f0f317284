"""Runs a handler loop on an AsyncShareConsumer: polls, calls, renewals and acknowledgements.

`work_queue` decides what is due for each record. This module runs the asyncio tasks and waits.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from sharegroup.client.handlers.registered import RegisteredHandler, RunCoroutine
from sharegroup.client.handlers.work_queue import Call, WorkQueue
from sharegroup.client.records import Possession, Record
from sharegroup.types import AcknowledgeType

if TYPE_CHECKING:
    from sharegroup.client.async_consumer import AsyncShareConsumer

#: The maximum wait of the handler loop between two iterations, and its maximum wait while a renewal is in progress.
_TURN_MS, _RENEWING_MS = 500, 20


class HandlerRunner:
    """One run of the handler loop. `stop` may be called from any thread."""

    def __init__(
        self, consumer: AsyncShareConsumer, registered: RegisteredHandler, run_coroutine: RunCoroutine
    ) -> None:
        self._consumer, self._clock, self._options = consumer, consumer.clock, registered.options
        self._queue = WorkQueue(registered.options, registered.ready_calls)
        self._pool = ThreadPoolExecutor(registered.options.concurrency, "sharegroup-handler")
        self._handle = registered.bind(self._pool, run_coroutine)
        self._calls: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._is_stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """End the run. From now on, no records are fetched and no handler calls are started."""
        self._is_stopped = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    async def run(self, drain_s: float) -> None:
        """Poll for records and call the handler until `stop` is called or a poll raises an error.

        Then wait up to `drain_s` seconds for calls in progress, and cancel those that take longer. Finally, send the
        acknowledgements and close the consumer. If a poll raised an error, raise it afterwards.
        """
        self._loop = asyncio.get_running_loop()
        self._consumer.begin_handling()
        poll: asyncio.Task[list[Record[Any]]] | None = None
        try:
            while not self._is_stopped:
                self._turn()
                if poll is None and self._queue.room.is_empty and not self._consumer.has_fetched:
                    self._consumer.send_without_poll(is_last=False)
                elif poll is None:
                    self._consumer.limit_fetches(*self._queue.room)
                    poll = asyncio.create_task(self._consumer.poll(_TURN_MS / 1000))
                    poll.add_done_callback(lambda _: self._wake.set())
                await self._wait(self._clock.now_ms() + _TURN_MS)
                if poll is not None and poll.done():
                    self._queue.add(poll.result(), self._clock.now_ms())
                    poll = None
        finally:
            if poll is not None:
                poll.cancel()
                await asyncio.wait([poll])
            await self._drain(drain_s)
            await self._consumer.close()
            self._pool.shutdown(wait=False)

    def _turn(self) -> None:
        """Start calls and send the acknowledgements and renewals that are due now."""
        self._consumer.note_handling()
        self._start_calls()
        acknowledgements = self._queue.pop_acknowledgements(self._clock.now_ms())
        renewals = self._queue.due_renewals(self._clock.now_ms())
        for record, kind in (*acknowledgements, *((record, AcknowledgeType.RENEW) for record in renewals)):
            if kind is not None and self._consumer.possession(record) is Possession.HELD:
                self._consumer.acknowledge(record, kind)
        self._consumer.give_back(record for record, kind in acknowledgements if kind is None)
        if acknowledgements or renewals:
            self._consumer.commit_async()

    def _start_calls(self) -> None:
        """Start the calls that are due, after removing records that the consumer no longer holds."""
        self._consumer.drop(self._queue.update(self._consumer.possession, self._clock.now_ms()))
        for call in self._queue.start_calls(self._clock.now_ms()):
            task = asyncio.create_task(self._call(call))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _call(self, call: Call) -> None:
        errors = await self._handle(call)
        self._queue.finish_call(call, errors, self._clock.now_ms())
        if not self._is_stopped:
            self._start_calls()  # a worker does not wait for the acknowledgements of the others
        self._wake.set()

    async def _drain(self, drain_s: float) -> None:
        self._queue.drain()
        end_ms = self._clock.now_ms() + int(drain_s * 1000)
        while self._queue.running and self._clock.now_ms() < end_ms:
            self._drain_turn()
            await self._wait(min(end_ms, self._clock.now_ms() + _TURN_MS))
        self._queue.abandon()
        for task in self._calls:
            task.cancel()
        self._drain_turn()
        end_ms = self._clock.now_ms() + 1_000
        while self._queue.is_renewing and self._clock.now_ms() < end_ms:  # their acknowledgements wait for the renewals
            await self._wait(end_ms)
            self._drain_turn()
        await self._consumer.commit_sync(10 * _TURN_MS / 1000)

    def _drain_turn(self) -> None:
        """Send the acknowledgements and renewals that are due during the shutdown, and release fetched records."""
        self._turn()
        self._consumer.send_without_poll(is_last=True)

    async def _wait(self, until_ms: int) -> None:
        """Wait until a call or a poll ends, `stop` is called, the next action is due, or `until_ms` is reached."""
        due_ms = self._queue.next_ms()
        is_idle = due_ms is not None and not self._queue.running and not self._queue.is_renewing
        if due_ms is not None:
            until_ms = min(until_ms, due_ms)
        if self._queue.is_renewing:
            until_ms = min(until_ms, self._clock.now_ms() + _RENEWING_MS)
        await self._clock.wait(self._wake, until_ms, is_idle)
        self._wake.clear()
