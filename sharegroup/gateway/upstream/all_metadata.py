"""Metadata of all topics: as bytes for clients, and decoded for the gateway itself."""

from __future__ import annotations

from functools import partial

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.gateway.upstream.decoded_metadata import DecodedMetadata
from sharegroup.gateway.upstream.large_answers import read
from sharegroup.gateway.wire.metadata_bytes import MetadataBytes
from sharegroup.kafka_clients.connections.broker_connections import BrokerConnections, check_knows_brokers
from sharegroup.kafka_clients.connections.kept_connection import KeptConnection


class AllMetadata:
    """Requests metadata from any broker that responds. Methods raise UpstreamUnavailableError."""

    def __init__(self, connections: BrokerConnections) -> None:
        self._connections = connections
        self._decoded = DecodedMetadata()

    async def decoded(self) -> MetadataResponse:
        """Return the metadata of all topics. Unchanged topics are the same objects as before."""
        metadata = await self.as_bytes()
        return await read(len(metadata.body), partial(self._decoded.decode, metadata))

    async def as_bytes(self, max_version: int | None = None) -> MetadataBytes:
        """Return the metadata of all topics, not decoded, in a version of at most `max_version`."""
        return await self._connections.from_any(partial(_ask, max_version))


async def _ask(max_version: int | None, connection: KeptConnection) -> MetadataBytes:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    metadata = await connection.ask(request, MetadataBytes, max_version)
    check_knows_brokers(await read(0, lambda: metadata.without_topics))
    return metadata
