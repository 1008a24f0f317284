"""Connections to simulated brokers, for the real clients of `kafka_clients` and `gateway.upstream`.

The real code decides which broker a client queries, how long it waits, and when it connects again. Only the socket is
replaced: a request is passed to `BrokerAnswers` as an object, and so is its response.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kafka.protocol.api_message import ApiMessage

from sharegroup.kafka_clients.connections.broker_connections import METADATA_TIMEOUT_S, Address, BrokerConnections
from sharegroup.kafka_clients.connections.connection import UpstreamConnection, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import Response
from sharegroup.kafka_clients.connections.reconnecting_connection import ReconnectingConnection
from tests.simulation.brokers.broker_answers import BrokerAnswers, broker_host, broker_id

PORT = 9092


class SimulatedConnection(UpstreamConnection):
    """An open connection to a broker."""

    def __init__(self, node_id: int, answers: BrokerAnswers) -> None:
        super().__init__()
        self._node_id, self._answers = node_id, answers
        self._asked: set[asyncio.Task[Any]] = set()
        self.is_open = True

    async def ask(
        self, request: ApiMessage, response: type[Response], version: int, timeout_s: float = 30.0
    ) -> Response:
        """Request as the real one does: a timeout closes the connection with all requests in progress."""
        if not self.is_open:
            raise UpstreamUnavailableError("the connection to the upstream broker is closed")
        task = asyncio.ensure_future(self._answers.answer(self._node_id, request, version))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        done, _ = await asyncio.wait([task], timeout=timeout_s)
        if not done:
            self.close()
            raise UpstreamUnavailableError(f"no answer from the upstream broker within {timeout_s:g} s")
        if task.cancelled():
            raise UpstreamUnavailableError("the upstream broker closed the connection")
        return task.result()

    def close(self) -> None:
        """Close the connection; requests in progress fail."""
        self.is_open = False
        for task in tuple(self._asked):
            task.cancel()


class SimulatedReconnectingConnection(ReconnectingConnection):
    """A connection to one broker. A silent broker accepts it, like the machine of a paused one, but never responds."""

    def __init__(self, host: str, port: int, answers: BrokerAnswers) -> None:
        super().__init__(host, port, {})
        self._answers = answers

    async def _open(self) -> UpstreamConnection:
        return SimulatedConnection(broker_id(self._host), self._answers)


class SimulatedConnections(BrokerConnections):
    """The connections to all brokers of the simulated Kafka, which are its bootstrap servers."""

    def __init__(self, answers: BrokerAnswers, metadata_timeout_s: float = METADATA_TIMEOUT_S) -> None:
        self._answers = answers
        servers = [f"{broker_host(node_id)}:{PORT}" for node_id in answers.kafka.brokers]
        self.settings = {"bootstrap_servers": servers}
        super().__init__(self.settings, metadata_timeout_s)

    def _connection(self, address: Address) -> ReconnectingConnection:
        return SimulatedReconnectingConnection(*address, self._answers)
