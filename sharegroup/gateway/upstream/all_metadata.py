"""Requests the metadata of all topics. Clients receive it undecoded. The gateway decodes it for its own use."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.gateway.wire.metadata_bytes import MetadataBytes, TopicPiece, decode_topics
from sharegroup.kafka_clients.connections.broker_connections import BrokerConnections, check_has_brokers
from sharegroup.kafka_clients.connections.connection import LARGE_BYTES, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import MalformedRequestError
from sharegroup.kafka_clients.connections.reconnecting_connection import ReconnectingConnection

T = TypeVar("T")

_Topic = MetadataResponse.MetadataResponseTopic


class DecodedMetadata:
    """The decoded metadata of all topics. `decode` updates it, and decodes only topics whose bytes have changed."""

    def __init__(self) -> None:
        self._last: tuple[MetadataBytes, MetadataResponse] | None = None
        self._topics: dict[str, tuple[TopicPiece, _Topic]] = {}

    def decode(self, metadata: MetadataBytes) -> MetadataResponse:
        """Decode a Metadata response. Topics that have not changed are the same objects as in the previous result.

        Raises MalformedRequestError if the bytes are not a Metadata response.
        """
        if self._last is not None and self._last[0] == metadata:
            return self._last[1]
        known = self._topics if self._last is not None and self._last[0].version == metadata.version else {}
        changed = [
            piece for name, piece in metadata.topics.items() if name not in known or known[name][0].data != piece.data
        ]
        new = zip(changed, decode_topics(changed, metadata.version), strict=True)
        found = known | {piece.name: (piece, topic) for piece, topic in new}
        self._topics = {name: found[name] for name in metadata.topics}
        head = metadata.without_topics
        response = MetadataResponse(
            throttle_time_ms=0,
            brokers=head.brokers,
            cluster_id=head.cluster_id,
            controller_id=head.controller_id,
            topics=[topic for _, topic in self._topics.values()],
        )
        self._last = metadata, response
        return response


class AllMetadata:
    """The metadata of all topics, which each method requests from any broker.

    Methods raise UpstreamUnavailableError if no broker responds.
    """

    def __init__(self, connections: BrokerConnections) -> None:
        self._connections = connections
        self._decoded = DecodedMetadata()

    async def fetch_decoded(self) -> MetadataResponse:
        """Return the decoded metadata. Topics that have not changed are the same objects as in the previous result."""
        metadata = await self.fetch_bytes()
        return await read_response(len(metadata.body), partial(self._decoded.decode, metadata))

    async def fetch_bytes(self, max_version: int | None = None) -> MetadataBytes:
        """Return the undecoded metadata, in the newest version that the broker supports, but at most `max_version`."""
        return await self._connections.query_any(partial(_ask, max_version))


async def _ask(max_version: int | None, connection: ReconnectingConnection) -> MetadataBytes:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    metadata = await connection.ask(request, MetadataBytes, max_version)
    check_has_brokers(await read_response(0, lambda: metadata.without_topics))
    return metadata


async def read_response(size: int, work: Callable[[], T]) -> T:
    """Run `work`, which decodes a response of `size` bytes, and return its result. Use a thread for a large response.

    Raises UpstreamUnavailableError if the response is malformed.
    """
    try:
        return await asyncio.to_thread(work) if size > LARGE_BYTES else work()
    except MalformedRequestError as error:
        raise UpstreamUnavailableError(f"a broker's response cannot be read: {error}") from error
