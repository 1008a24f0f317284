"""Asyncio tasks that may fail when nothing awaits them any longer."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def quiet_task(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task. If nothing awaits it, its exception is dropped; otherwise asyncio would log the exception."""
    task = asyncio.ensure_future(coroutine)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task
