"""Builds and parses the messages between consumers and the share group in memory, which is the only broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.metadata import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from sharegroup.client.connector import ApiRanges
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.acknowledge_rules import UNUSED
from sharegroup.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
)
from sharegroup.protocol.share_session import TopicIdPartition
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.types import AcknowledgementBatch, AcquiredRange

#: The APIs of the broker, with the versions that the functions of this module support.
API_RANGES: ApiRanges = {
    MetadataRequest.API_KEY: (0, 12),
    FindCoordinatorRequest.API_KEY: (4, 4),
    ShareGroupHeartbeatRequest.API_KEY: (1, 1),
    ShareFetchRequest.API_KEY: (1, 2),
    ShareAcknowledgeRequest.API_KEY: (1, 2),
}
_NODE_ID, _HOST, _PORT = 0, "in-memory", 9092
_FETCHED = ShareFetchResponse.ShareFetchableTopicResponse
_ACKNOWLEDGED = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse

#: The results of acknowledgements: {partition: error, or None for success}.
AcknowledgeErrors = Mapping[TopicIdPartition, RequestError | None]


class Topic(NamedTuple):
    """A topic of a Metadata response. The topic id is None if the name is illegal."""

    name: str
    topic_id: UUID | None
    partitions: int


class Fetched(NamedTuple):
    """The record batches and acquired ranges of a partition in a ShareFetch response."""

    records: bytes
    acquired: tuple[AcquiredRange, ...]


def partitions_of(request: Any) -> Iterator[tuple[TopicIdPartition, list[AcknowledgementBatch]]]:
    """Yield (partition, acknowledgement batches) of a ShareFetch or ShareAcknowledge request."""
    for topic in request.topics or ():
        for part in topic.partitions:
            batches = [
                AcknowledgementBatch(
                    batch.first_offset, batch.last_offset, UNUSED if batch.is_unused else tuple(batch.acknowledge_types)
                )
                for batch in part.acknowledgement_batches or ()
            ]
            yield TopicIdPartition(topic.topic_id, part.partition_index), batches


def forgotten_of(request: Any) -> list[TopicIdPartition]:
    """Return the partitions that a ShareFetch request removes from its session."""
    return [
        TopicIdPartition(topic.topic_id, partition)
        for topic in request.forgotten_topics_data or ()
        for partition in topic.partitions
    ]


def metadata_response(topics: Iterable[Topic]) -> MetadataResponse:
    """Return a Metadata response with these topics and one broker, which leads all partitions."""
    broker = MetadataResponse.MetadataResponseBroker(node_id=_NODE_ID, host=_HOST, port=_PORT)
    return MetadataResponse(brokers=[broker], topics=[_topic(topic) for topic in topics])


def _topic(topic: Topic) -> Any:
    classes = MetadataResponse.MetadataResponseTopic
    partitions = [
        classes.MetadataResponsePartition(
            error_code=0, partition_index=index, leader_id=_NODE_ID, replica_nodes=[], isr_nodes=[]
        )
        for index in range(topic.partitions)
    ]
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if topic.topic_id is None else ErrorCode.NONE
    return classes(error_code=int(code), name=topic.name, topic_id=topic.topic_id or NO_TOPIC_ID, partitions=partitions)


def find_coordinator_response(
    request: Any, node_id: int = _NODE_ID, host: str = _HOST, port: int = _PORT
) -> FindCoordinatorResponse:
    """Return a FindCoordinator response with this broker as coordinator.

    By default, it is the broker of `metadata_response`.
    """
    (group_id,) = request.coordinator_keys
    found = FindCoordinatorResponse.Coordinator(
        key=group_id, node_id=node_id, host=host, port=port, error_code=0, error_message=None
    )
    response = FindCoordinatorResponse(coordinators=[found])
    response.API_VERSION = 4
    return response


def fetch_response(
    lock_timeout_ms: int,
    problem: RequestError | None = None,
    errors: AcknowledgeErrors | None = None,
    fetched: Mapping[TopicIdPartition, Fetched] | None = None,
) -> ShareFetchResponse:
    """Return a ShareFetch response with an entry for each partition that was acknowledged or fetched.

    `problem` is the error of the whole request.
    """
    errors, fetched = errors or {}, fetched or {}
    entries = {}
    for key in dict.fromkeys([*fetched, *errors]):
        code, message = _error(errors.get(key))
        found = fetched.get(key, Fetched(b"", ()))
        entries[key] = _FETCHED.PartitionData(
            partition_index=key.partition,
            error_code=0,
            error_message=None,
            acknowledge_error_code=code,
            acknowledge_error_message=message,
            current_leader=_FETCHED.PartitionData.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
            records=found.records,
            acquired_records=[
                _FETCHED.PartitionData.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in found.acquired
            ],
        )
    return ShareFetchResponse(responses=_by_topic(_FETCHED, entries), **_header(problem, lock_timeout_ms))


def acknowledge_response(
    lock_timeout_ms: int, problem: RequestError | None = None, errors: AcknowledgeErrors | None = None
) -> ShareAcknowledgeResponse:
    """Return a ShareAcknowledge response with an entry for each partition that was acknowledged."""
    entries = {}
    for key, error in (errors or {}).items():
        code, message = _error(error)
        entries[key] = _ACKNOWLEDGED.PartitionData(
            partition_index=key.partition,
            error_code=code,
            error_message=message,
            current_leader=_ACKNOWLEDGED.PartitionData.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
        )
    return ShareAcknowledgeResponse(responses=_by_topic(_ACKNOWLEDGED, entries), **_header(problem, lock_timeout_ms))


def _error(error: RequestError | None) -> tuple[int, str | None]:
    return (0, None) if error is None else (int(error.code), error.message)


def _header(problem: RequestError | None, lock_timeout_ms: int) -> dict[str, Any]:
    code, message = _error(problem)
    return {
        "throttle_time_ms": 0,
        "error_code": code,
        "error_message": message,
        "acquisition_lock_timeout_ms": lock_timeout_ms,
        "node_endpoints": [],
    }


def _by_topic(topic: Any, entries: Mapping[TopicIdPartition, Any]) -> list[Any]:
    found: dict[UUID, list[Any]] = {}
    for key, entry in entries.items():
        found.setdefault(key.topic_id, []).append(entry)
    return [topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in found.items()]
