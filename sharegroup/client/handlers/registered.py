"""The decorators that register a handler, and the code that calls the handler's function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from sharegroup.client.errors import IllegalStateError
from sharegroup.client.handlers.decisions import HandlerOptions, Retry, log_failure, parse_bytes
from sharegroup.client.handlers.work_queue import Call, errors_by_index

Function = TypeVar("Function", bound=Callable[..., Any])
#: A function that runs a handler call. It returns {index of a record: exception} for the records that were not
#: processed. If the call was withdrawn before it began, the result is ignored.
Handle = Callable[[Call], Awaitable[dict[int, BaseException]]]
#: A function that runs a coroutine of the application. It selects the event loop on which the coroutine runs.
RunCoroutine = Callable[[Any], Awaitable[Any]]


class RegisteredHandler(NamedTuple):
    """A handler function with its options. `is_batch` is whether the function receives a list of records."""

    function: Callable[..., Any]
    options: HandlerOptions
    is_batch: bool

    @property
    def is_coroutine(self) -> bool:
        """Whether the function is a coroutine function. Its calls run on an event loop, other calls run on threads."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def ready_calls(self) -> int:
        """The number of calls that are prepared in advance for the worker threads.

        It is 0 for batch handlers, because a batch that is prepared early would contain fewer records.
        """
        return 0 if self.is_coroutine or self.is_batch else self.options.concurrency

    def bind(self, pool: ThreadPoolExecutor, run_coroutine: RunCoroutine) -> Handle:
        """Return a function that runs one handler call and returns the errors of its records.

        If the handler is a coroutine function, `run_coroutine` runs it. Otherwise it runs on a thread of `pool`.
        """

        def run(call: Call, argument: Any) -> Any:
            is_lost = all(record.cancelled.is_set() for record in call.records)
            return self.function(argument) if call.claim() and not is_lost else None

        async def begin(call: Call, argument: Any) -> Any:
            if not self.is_coroutine:
                return await asyncio.get_running_loop().run_in_executor(pool, run, call, argument)
            if not call.claim():
                return None
            result, problem = await run_coroutine(_result_or_exit(self.function(argument)))
            if problem is not None:
                raise problem
            return result

        async def handle(call: Call) -> dict[int, BaseException]:
            records = call.records
            try:
                result = await begin(call, records if self.is_batch else records[0])
                errors = errors_by_index(result, records) if self.is_batch else {}
            except BaseException as problem:
                if isinstance(problem, asyncio.CancelledError) and _is_cancelled():
                    raise  # the handler loop abandons the call
                errors = dict.fromkeys(range(len(records)), problem)
            for index, error in errors.items():
                log_failure(records[index], error)
            return errors

        return handle


async def _result_or_exit(coroutine: Any) -> tuple[Any, BaseException | None]:
    """Await a handler's coroutine, and return its result, or else its SystemExit or KeyboardInterrupt.

    If a task of an event loop raises these, the event loop ends, and with it its thread.
    """
    try:
        return await coroutine, None
    except (SystemExit, KeyboardInterrupt) as problem:
        return None, problem


def _is_cancelled() -> bool:
    """Return whether the current task was cancelled. Otherwise a CancelledError is from a task that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class HandlesRecords:
    """Base class of the consumers, with the methods that register a handler and stop the handler loop."""

    _registered: RegisteredHandler | None = None
    _stop: Callable[[], None] | None = None
    _is_stopped = False

    def handler(
        self,
        *,
        concurrency: int = 1,
        max_in_hand: tuple[int, int | str] = (500, "64MB"),
        max_processing_s: float = 600,
        on_error: Retry | None = None,
    ) -> Callable[[Function], Function]:
        """Return a decorator that registers a function, or a coroutine function, which `run` calls for each record.

        If the function returns, the record is accepted. If it raises `Reject(reason)`, the record is rejected. If it
        raises `Release(delay_s=...)`, the record is released. After any other exception, `on_error` determines whether
        the function is called again for the record. By default, the record is released.

        Args:
            concurrency: the maximum number of concurrent calls: threads for functions, tasks for coroutines.
            max_in_hand: (records, size). The maximum number of records that the consumer holds, and the maximum total
                size of their keys and values, as a number of bytes or as text such as "64MB".
            max_processing_s: how long a record's lock is renewed, counted from the start of its first call.

        Raises IllegalStateError if a handler is already registered, and ValueError for an invalid option.
        """
        limits = _limits(max_in_hand, on_error)
        options = HandlerOptions(concurrency, max_processing_ms=round(max_processing_s * 1000), **limits)
        return self._register(options, is_batch=False)

    def batch_handler(
        self,
        *,
        max_records: int,
        max_wait_s: float = 0.0,
        concurrency: int = 1,
        max_in_hand: tuple[int, int | str] = (500, "64MB"),
        max_processing_s: float = 600,
        on_error: Retry | None = None,
    ) -> Callable[[Function], Function]:
        """Return a decorator that registers a function, which `run` calls with a list of at most `max_records` records.

        The function returns None if all records were processed, or {record: exception} for those that were not. An
        exception that the function raises applies to all records of the list. A call waits up to `max_wait_s` for a
        full list. The other options and errors are those of `handler`.
        """
        options = HandlerOptions(
            concurrency,
            batch_records=max_records,
            max_wait_ms=round(max_wait_s * 1000),
            max_processing_ms=round(max_processing_s * 1000),
            **_limits(max_in_hand, on_error),
        )
        return self._register(options, is_batch=True)

    def stop(self) -> None:
        """End `run`. If `run` has not started yet, it ends when it starts. Any thread or handler may call this."""
        self._is_stopped = True
        if self._stop is not None:
            self._stop()

    def _stops(self, stop: Callable[[], None]) -> None:
        """Store the function that ends the current run. If the consumer was already stopped, call the function now."""
        self._stop = stop
        if self._is_stopped:
            stop()

    def _register(self, options: HandlerOptions, is_batch: bool) -> Callable[[Function], Function]:
        if self._registered is not None:
            raise IllegalStateError("the consumer already has a handler, and only one can be registered")

        def register(function: Function) -> Function:
            self._registered = RegisteredHandler(function, options, is_batch)
            return function

        return register

    def _handler(self) -> RegisteredHandler:
        if self._registered is None:
            raise IllegalStateError("register a handler first, with consumer.handler or consumer.batch_handler")
        return self._registered


def _limits(max_in_hand: tuple[int, int | str], on_error: Retry | None) -> dict[str, Any]:
    records, size = max_in_hand
    return {"max_records": records, "max_bytes": parse_bytes(size), "retry": on_error or Retry.never()}
