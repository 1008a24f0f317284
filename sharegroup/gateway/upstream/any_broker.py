"""What every upstream broker can answer is asked of the port's own, and of the others while that one is away.

A client may know no address but this port: through it, it learns of the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sharegroup.gateway.upstream.brokers import Brokers
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError

T = TypeVar("T")

#: For a broker while there are others to ask. Clients wait 10 s and more for what is asked here.
PATIENCE_S = 3.0


async def from_any_broker(brokers: Brokers, first_asked: int, ask: Callable[[int], Awaitable[T]]) -> T:
    """What `ask` gets from a broker: the first, from `first_asked` on, that has it. Raises the last one's error."""
    *first, last = first_asked, *(node_id for node_id in brokers.node_ids if node_id != first_asked)
    for node_id in first:
        with contextlib.suppress(UpstreamUnavailableError, asyncio.TimeoutError):
            return await asyncio.wait_for(ask(node_id), PATIENCE_S)
    return await ask(last)
