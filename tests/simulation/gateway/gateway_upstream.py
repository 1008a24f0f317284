"""The upstream cluster of a simulated gateway: the real one, over connections to simulated brokers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.connections.reconnecting_connection import ReconnectingConnection
from tests.simulation.brokers.broker_answers import BatchBytes, BrokerAnswers, UpstreamFaults, broker_host
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.brokers.log_clients import Weather
from tests.simulation.gateway.simulated_connections import PORT, SimulatedConnections, SimulatedReconnectingConnection
from tests.simulation.virtual_clock import Scheduler


class TailConnections:
    """Connections to the simulated brokers, as `NodeConnections`."""

    def __init__(self, answers: BrokerAnswers) -> None:
        self._answers = answers
        self._connections: dict[int, ReconnectingConnection] = {}

    def get(self, node_id: int) -> ReconnectingConnection:
        """Return the connection to a broker."""
        if node_id not in self._connections:
            self._connections[node_id] = SimulatedReconnectingConnection(broker_host(node_id), PORT, self._answers)
        return self._connections[node_id]


class SimulatedUpstream(UpstreamCluster):
    """The real cluster's metadata, choice of brokers and timeouts, over simulated connections."""

    def __init__(
        self, clock: Scheduler, kafka: SimulatedKafka, weather: Weather, faults: UpstreamFaults, batches: BatchBytes
    ) -> None:
        answers = BrokerAnswers(
            kafka,
            clock.random,
            faults,
            batches,
            lambda: weather.latency_ms(clock) / 1000,
            lambda: faults.metadata_lag_ms,
        )
        self._simulated = SimulatedConnections(answers)
        super().__init__(self._simulated.settings)
        self._connections = self._simulated
        #: Connections of their own for the reader of the ends of logs.
        self.tail_connections = TailConnections(answers)

    async def _metadata(self, names: Collection[str] | None = None) -> MetadataResponse:
        """Return the metadata without converting it to bytes and back."""
        return await (self._connections.query_any(_all_metadata) if names is None else super()._metadata(names))


async def _all_metadata(connection: ReconnectingConnection) -> Any:
    return await connection.ask(MetadataRequest(topics=None), MetadataResponse)
