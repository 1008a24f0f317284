"""Brokers that can be asked, in whoever's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kafka.protocol.api_message import ApiMessage

from sharegroup.kafka_clients.connections.connection import Features
from sharegroup.kafka_clients.connections.headers import Response


class Brokers(Protocol):
    """Methods raise UpstreamUnavailableError."""

    @property
    def node_ids(self) -> Sequence[int]:
        """The brokers of the newest metadata, sorted."""

    async def ask(
        self, node_id: int, request: ApiMessage, response: type[Response], max_version: int | None = None
    ) -> Response:
        """A request to one broker, in the newest version that both know."""

    async def features(self, node_id: int) -> Features:
        """Which APIs a broker offers, in which versions."""
