"""An asyncio event loop in virtual time: one for each simulated process, all on one queue of events.

Nothing waits here: ready callbacks run at the present time, and timers are events of the `Scheduler`. Therefore a
process can be stopped between two steps of its tasks, as a machine stops it: `pause` delays everything until `resume`,
and after `kill` nothing of it runs. There is no thread, no socket and no other clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
from asyncio.events import _set_running_loop  # documented for implementers of event loops
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.virtual_clock import Event, Scheduler

#: Float seconds are inexact: a time less than this above a whole millisecond is that millisecond.
_ROUNDING_MS = 1e-3
_LEAST_TASKS = 64
#: A killed task is closed once, and again for each wait in a `finally`.
_MOST_CLOSES = 20
#: A process that does more steps than this within one millisecond would never end.
_MOST_STEPS = 200_000


#: Typed loosely, because most of a loop's interface - sockets, processes, signals - is missing and unused.
_AbstractLoop: Any = asyncio.AbstractEventLoop


class VirtualLoop(_AbstractLoop):
    """The loop that runs the coroutines of one process. Its `time` counts seconds since its creation. `problems` are
    errors that no code handled."""

    def __init__(self, clock: Scheduler) -> None:
        self._clock = clock
        self._start_ms = clock.now_ms
        self._ready: deque[asyncio.Handle] = deque()
        #: Tasks that have not ended, and some that have.
        self._tasks: list[asyncio.Task[Any]] = []
        self._most_tasks = _LEAST_TASKS
        self._is_woken = self._is_running = self._is_paused = self._is_closed = False
        self._busy_ms, self._steps = -1, 0
        self.problems: list[dict[str, Any]] = []

    # -- process -------------------------------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether the process is suspended."""
        return self._is_paused

    def pause(self) -> None:
        """Suspend the process and its timers; everything that arrives waits."""
        self._is_paused = True

    def resume(self) -> None:
        """Continue, first with the events that became due meanwhile, in the order of their times."""
        if self._is_paused:
            self._is_paused = False
            self._wake()

    def kill(self) -> None:
        """End the process: nothing of it runs, and the final steps of its tasks have no effect."""
        self._is_closed = True
        self._ready.clear()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            if task.done():
                continue
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            for _ in range(_MOST_CLOSES):
                with contextlib.suppress(RuntimeError):  # it waits again, in a `finally`
                    with contextlib.suppress(ValueError):  # it is the task that kills us
                        task.get_coro().close()
                    break

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task that nothing waits for; an error in it is a problem."""
        task = self.create_task(coroutine)
        task.add_done_callback(self._check)
        return task

    def run_until_done(self, work: Coroutine[Any, Any, Any], goes_on: Callable[[], bool], end_ms: float) -> Any:
        """Run a coroutine for code that waits for it, and return its result.

        Time passes while it waits. Raises what it raises, and TimeoutError if `goes_on` ends or `end_ms` comes first.
        """
        self._is_woken = True  # what is ready runs here and now, not as an event
        task = self.create_task(work)
        self._run()
        self._clock.run_while(lambda: not task.done() and goes_on(), end_ms)
        if not task.done():
            self.kill()
            raise TimeoutError
        return task.result()

    # -- what asyncio asks for -----------------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds since the loop was made."""
        return (self._clock.now_ms - self._start_ms) / 1000

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Call it after what is ready now, at the present time."""
        handle = asyncio.Handle(callback, args, self, context)
        self._run_soon(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """There are no threads: the same as `call_soon`."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Call it after `delay` seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Call it at a time of this loop, at the first millisecond that is not before it."""
        timer = _Timer(when, callback, args, self, context)
        when_ms = self._start_ms + math.ceil(when * 1000 - _ROUNDING_MS)
        if when > self.time():
            when_ms = max(when_ms, self._clock.now_ms + 1)  # else whoever waits a moment again and again never ends
        timer.event = self._clock.at(when_ms, lambda: self._run_soon(timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:
        """Return a task of this loop. Of a killed process it never starts."""
        if self._is_closed:
            coro.close()
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name)
        if self._is_closed:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            return task
        self._tasks.append(task)
        if len(self._tasks) > self._most_tasks:
            self._tasks = [known for known in self._tasks if not known.done()]
            self._most_tasks = 2 * len(self._tasks) + _LEAST_TASKS
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Call the function immediately, because there are no threads."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for whoever waits
            future.set_exception(error)
        return future

    def is_running(self) -> bool:
        """Return whether one of its callbacks runs."""
        return self._is_running

    def is_closed(self) -> bool:
        """Return whether the process was killed."""
        return self._is_closed

    def close(self) -> None:
        """Kill the process."""
        self.kill()

    def get_debug(self) -> bool:
        """Return whether tasks check themselves, which they query from the loop."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an error that no code handled."""
        self.problems.append(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Discard a timer; its handle calls this when it is cancelled."""
        assert isinstance(handle, _Timer)
        handle.event.cancel()

    # -- running -------------------------------------------------------------------------------------------------------

    def _run_soon(self, handle: asyncio.Handle) -> None:
        if not self._is_closed:
            self._ready.append(handle)
            self._wake()

    def _wake(self) -> None:
        if self._ready and not (self._is_woken or self._is_running or self._is_paused):
            self._is_woken = True
            self._clock.after(0, self._run)

    def _run(self) -> None:
        """Run the ready callbacks, and those that they make ready."""
        self._is_woken = False
        if self._is_paused:
            return
        self._is_running = True
        _set_running_loop(self)
        try:
            while self._ready and not self._is_paused:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
                    self._count_step()
        finally:
            _set_running_loop(None)
            self._is_running = False

    def _count_step(self) -> None:
        if self._clock.now_ms != self._busy_ms:
            self._busy_ms, self._steps = self._clock.now_ms, 0
        self._steps += 1
        if self._steps > _MOST_STEPS:
            self.problems.append({"message": "the process repeats something without a pause"})
            self.kill()

    def _check(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.problems.append({"message": "a task failed", "exception": task.exception(), "task": task})


class _Timer(asyncio.TimerHandle):
    """A timer and its event."""

    __slots__ = ("event",)
    event: Event
