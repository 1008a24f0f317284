"""Requests that any upstream broker can answer.

They are sent to the port's own broker, or to another one if it is unavailable. A client may have only the address of
this port, and get all others through it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from kafka.protocol.api_message import ApiMessage

from sharegroup.kafka_clients.connections.connection import Features, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import Response

T = TypeVar("T")

#: Timeout of each broker but the last. Clients wait at least 10 s for these responses.
TIMEOUT_S = 3.0


class Brokers(Protocol):
    """Sends requests as the gateway or as a client. Methods raise UpstreamUnavailableError."""

    @property
    def node_ids(self) -> Sequence[int]:
        """The brokers of the newest metadata, sorted."""

    async def ask(
        self, node_id: int, request: ApiMessage, response: type[Response], max_version: int | None = None
    ) -> Response:
        """Send a request to one broker, in the newest version that both sides support."""

    async def features(self, node_id: int) -> Features:
        """Return the APIs of a broker and their versions."""


async def request_any_broker(brokers: Brokers, first_asked: int, ask: Callable[[int], Awaitable[T]]) -> T:
    """Return the first result of `ask`, trying `first_asked` and then the others. Raises the last broker's error."""
    *first, last = first_asked, *(node_id for node_id in brokers.node_ids if node_id != first_asked)
    for node_id in first:
        with contextlib.suppress(UpstreamUnavailableError, asyncio.TimeoutError):
            return await asyncio.wait_for(ask(node_id), TIMEOUT_S)
    return await ask(last)
