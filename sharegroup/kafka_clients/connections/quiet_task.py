"""Starts asyncio tasks whose exceptions are not logged if nothing awaits the tasks."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def quiet_task(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task. If nothing awaits the task, its exception is dropped. asyncio would log it by default."""
    task = asyncio.ensure_future(coroutine)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task
