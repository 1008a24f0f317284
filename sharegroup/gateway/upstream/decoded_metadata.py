"""Decoded metadata of all topics for the gateway itself. Only topics whose bytes have changed are decoded."""

from __future__ import annotations

from kafka.protocol.metadata import MetadataResponse

from sharegroup.gateway.wire.metadata_bytes import MetadataBytes, TopicPiece, decoded_topics

_Topic = MetadataResponse.MetadataResponseTopic


class DecodedMetadata:
    """Keeps the topics of the last response."""

    def __init__(self) -> None:
        self._last: tuple[MetadataBytes, MetadataResponse] | None = None
        self._topics: dict[str, tuple[TopicPiece, _Topic]] = {}

    def decode(self, metadata: MetadataBytes) -> MetadataResponse:
        """Decode a response. Unchanged topics are the same objects as before. Raises MalformedRequestError."""
        if self._last is not None and self._last[0] == metadata:
            return self._last[1]
        known = self._topics if self._last is not None and self._last[0].version == metadata.version else {}
        changed = [
            piece for name, piece in metadata.topics.items() if name not in known or known[name][0].data != piece.data
        ]
        new = zip(changed, decoded_topics(changed, metadata.version), strict=True)
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
