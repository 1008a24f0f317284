"""Sends requests that any upstream broker can answer, and uses the first response.

Such a request is first sent to the broker whose port the client uses. If this broker does not respond, the request is
sent to the other brokers. Without this retry, a client that knows only the port of a failed broker could not get any
other address.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from kafka.protocol.api_message import ApiMessage

from sharegroup.kafka_clients.connections.connection import Features, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import Response

T = TypeVar("T")

#: Timeout for each broker except the last one that is tried. Clients wait for at least 10 s for these responses.
TIMEOUT_S = 3.0


class Brokers(Protocol):
    """The brokers, with connections that use the identity of the gateway or of a client.

    Methods that send requests raise UpstreamUnavailableError if the broker does not respond.
    """

    @property
    def node_ids(self) -> Sequence[int]:
        """The ids of the brokers in the newest metadata, sorted."""

    async def ask(
        self, node_id: int, request: ApiMessage, response: type[Response], max_version: int | None = None
    ) -> Response:
        """Send a request to one broker and return its response, an instance of `response`.

        The version is the newest that both sides support, but at most `max_version`.
        """

    async def features(self, node_id: int) -> Features:
        """Return the APIs that a broker supports, with their versions."""


async def request_any_broker(brokers: Brokers, first_asked: int, ask: Callable[[int], Awaitable[T]]) -> T:
    """Call `ask` with one broker id after another until a call succeeds, and return its result.

    The first id is `first_asked`. A call fails if it raises UpstreamUnavailableError. All calls except the last one
    also fail if they take longer than `TIMEOUT_S` seconds. If all calls fail, the error of the last one is raised. Any
    other error is raised immediately.
    """
    *first, last = first_asked, *(node_id for node_id in brokers.node_ids if node_id != first_asked)
    for node_id in first:
        with contextlib.suppress(UpstreamUnavailableError, asyncio.TimeoutError):
            return await asyncio.wait_for(ask(node_id), TIMEOUT_S)
    return await ask(last)
