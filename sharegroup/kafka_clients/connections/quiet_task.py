"""Tasks that may fail after their waiters are gone."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def quiet_task(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task whose exception is dropped if its result is not used; asyncio would log it."""
    task = asyncio.ensure_future(coroutine)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task
