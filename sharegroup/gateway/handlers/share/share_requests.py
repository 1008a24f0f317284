"""Extracts the partitions and acknowledgements from ShareFetch and ShareAcknowledge requests."""

from collections.abc import Iterable

from sharegroup.gateway.wire.share_request_decoding import ForgottenTopic, RequestTopic
from sharegroup.protocol.share_session import TopicIdPartition
from sharegroup.types import AcknowledgementBatch


def partitions_of(topics: Iterable[RequestTopic]) -> list[TopicIdPartition]:
    """Return the partitions that a ShareFetch adds to its session."""
    return [
        TopicIdPartition(topic.topic_id, partition.partition_index)
        for topic in topics
        for partition in topic.partitions
    ]


def forgotten_of(topics: Iterable[ForgottenTopic]) -> Iterable[TopicIdPartition]:
    """Yield the partitions that a ShareFetch removes from its session."""
    for topic in topics:
        for partition in topic.partitions:
            yield TopicIdPartition(topic.topic_id, partition)


def acknowledgements_of(topics: Iterable[RequestTopic]) -> dict[TopicIdPartition, list[AcknowledgementBatch]]:
    """Return {partition: acknowledgement batches}, without partitions that have no batches."""
    found: dict[TopicIdPartition, list[AcknowledgementBatch]] = {}
    for topic in topics:
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                key = TopicIdPartition(topic.topic_id, partition.partition_index)
                found.setdefault(key, []).extend(partition.acknowledgement_batches)
    return found
