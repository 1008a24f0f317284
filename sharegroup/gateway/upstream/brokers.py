"""The brokers as handlers use them, with the identity of the gateway or of a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kafka.protocol.api_message import ApiMessage

from sharegroup.kafka_clients.connections.connection import Features
from sharegroup.kafka_clients.connections.headers import Response


class Brokers(Protocol):
    """Sends requests to brokers. Methods raise UpstreamUnavailableError."""

    @property
    def node_ids(self) -> Sequence[int]:
        """The brokers of the newest metadata, sorted."""

    async def ask(
        self, node_id: int, request: ApiMessage, response: type[Response], max_version: int | None = None
    ) -> Response:
        """Send a request to one broker, in the newest version that both sides support."""

    async def features(self, node_id: int) -> Features:
        """Return the APIs of a broker and their versions."""
