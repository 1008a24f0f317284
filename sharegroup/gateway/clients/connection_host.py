"""What a client's connection asks of the gateway that it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafka.protocol.api_message import ApiMessage

from sharegroup.config import GatewayConfig
from sharegroup.gateway.security import Security
from sharegroup.gateway.upstream.passthrough import Passthrough
from sharegroup.gateway.wire.headers import RequestHeader
from sharegroup.gateway.wire.request import Request

if TYPE_CHECKING:
    from sharegroup.gateway.clients.client_connection import ClientConnection

T = TypeVar("T")
U = TypeVar("U")


class ConnectionHost(Protocol):
    """See the module. `messages`: {api key: request message} of what the gateway answers itself."""

    config: GatewayConfig
    security: Security
    messages: Mapping[int, type[ApiMessage]]

    def now(self) -> float:
        """The loop's clock, in seconds."""

    def connected(self, connection: ClientConnection) -> bool:
        """Take a connection in; False when there are too many."""

    def disconnected(self, connection: ClientConnection, connection_id: int) -> None:
        """The client is gone."""

    async def check_offered(self, node_id: int, header: RequestHeader) -> None:
        """Raises UnknownVersionError for what clients are not offered of an upstream broker."""

    def passthrough(self, node_id: int) -> Passthrough:
        """A link for one client."""

    async def run_login(self, step: Callable[[T], U], said: T) -> U:
        """A step of a login, off the event loop."""

    async def handle(self, request: Request[ApiMessage]) -> ApiMessage:
        """The response message to a request of `messages`."""
