"""Brokers' answers that take milliseconds to read are read on a thread: the event loop has others to serve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sharegroup.kafka_clients.connections.connection import LARGE_BYTES, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import MalformedRequestError

T = TypeVar("T")


async def read(size: int, work: Callable[[], T]) -> T:
    """What `work` makes of an answer of `size` bytes. Raises UpstreamUnavailableError for one that cannot be read."""
    try:
        return await asyncio.to_thread(work) if size > LARGE_BYTES else work()
    except MalformedRequestError as error:
        raise UpstreamUnavailableError(f"a broker's answer cannot be read: {error}") from error
