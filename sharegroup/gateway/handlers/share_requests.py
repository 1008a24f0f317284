"""What ShareFetch and ShareAcknowledge say, by topic partition."""

from __future__ import annotations

from collections.abc import Iterable

from kafka.protocol.data_container import DataContainer

from sharegroup.gateway.sessions.share_session import TopicIdPartition
from sharegroup.gateway.wire.request import Request
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.types import AcknowledgementBatch

__all__ = ["acknowledgements_of", "forgotten_of", "is_renew_ack", "partitions_of"]


def is_renew_ack(request: Request[ShareFetchRequest] | Request[ShareAcknowledgeRequest]) -> bool:
    """Whether it renews locks; before v2 there is no such field."""
    return bool(request.version >= 2 and request.body.is_renew_ack)


def partitions_of(topics: Iterable[DataContainer]) -> list[TopicIdPartition]:
    """What a ShareFetch names to be fetched."""
    return [
        TopicIdPartition(topic.topic_id or NO_TOPIC_ID, partition.partition_index)
        for topic in topics
        for partition in topic.partitions
    ]


def forgotten_of(topics: Iterable[DataContainer]) -> Iterable[TopicIdPartition]:
    """What a ShareFetch names to be fetched no more."""
    for topic in topics:
        for partition in topic.partitions:
            yield TopicIdPartition(topic.topic_id or NO_TOPIC_ID, partition)


def acknowledgements_of(topics: Iterable[DataContainer]) -> dict[TopicIdPartition, list[AcknowledgementBatch]]:
    """What either request acknowledges; partitions without batches are left out."""
    found: dict[TopicIdPartition, list[AcknowledgementBatch]] = {}
    for topic in topics:
        for partition in topic.partitions:
            batches = [
                AcknowledgementBatch(batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types))
                for batch in partition.acknowledgement_batches
            ]
            if batches:
                key = TopicIdPartition(topic.topic_id or NO_TOPIC_ID, partition.partition_index)
                found.setdefault(key, []).extend(batches)
    return found
