"""Reading of large responses on a thread, because it takes milliseconds and the event loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sharegroup.kafka_clients.connections.connection import LARGE_BYTES, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import MalformedRequestError

T = TypeVar("T")


async def read(size: int, work: Callable[[], T]) -> T:
    """Run `work` on a response of `size` bytes. Raises UpstreamUnavailableError if the response is invalid."""
    try:
        return await asyncio.to_thread(work) if size > LARGE_BYTES else work()
    except MalformedRequestError as error:
        raise UpstreamUnavailableError(f"a broker's response cannot be read: {error}") from error
