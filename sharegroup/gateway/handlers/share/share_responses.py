"""Builds ShareFetch and ShareAcknowledge responses, which have one entry per partition.

Each acknowledged partition must have an entry. If a partition has no records, its field for records must be empty
bytes, not null. Otherwise clients stall.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Generic, TypeVar
from uuid import UUID

from kafka.protocol.data_container import DataContainer

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.sessions.member_partition import AckResult
from sharegroup.gateway.sessions.member_session import PartitionRecords
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.gateway.wire.share_fetch_bytes import ShareFetchBytes
from sharegroup.protocol.messages import ShareAcknowledgeResponse, ShareFetchResponse
from sharegroup.protocol.share_session import TopicIdPartition

Message = TypeVar("Message", ShareFetchResponse, ShareAcknowledgeResponse)

_NO_LEADER = (-1, -1)


class _Leaders:
    """Finds the current leaders of partitions for which a client sent a request to the wrong node."""

    def __init__(self, cluster: UpstreamCluster, listeners: Listeners) -> None:
        self._cluster, self._listeners = cluster, listeners
        self._leader_ids: set[int] = set()

    def of(self, key: TopicIdPartition, error_code: int) -> tuple[int, int]:
        """Return (leader id, leader epoch) if the error is NOT_LEADER_OR_FOLLOWER; (-1, -1) otherwise or if unknown."""
        if error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return _NO_LEADER
        topic = self._cluster.topic_by_id(key.topic_id)
        leader = topic.leaders.get(key.partition) if topic is not None else None
        if leader is None or not self._listeners.has_port(leader.node_id):
            return _NO_LEADER
        self._leader_ids.add(leader.node_id)
        return leader.node_id, leader.epoch

    def endpoints(self, message: type[ShareFetchResponse | ShareAcknowledgeResponse]) -> list[DataContainer]:
        """Return the NodeEndpoints of the response.

        They list each leader that the method `of` has returned, with the gateway's address for this leader.
        """
        return [
            message.NodeEndpoint(node_id=node_id, host=host, port=port, rack=None)
            for node_id, (host, port) in (
                (node_id, self._listeners.get_address(node_id)) for node_id in sorted(self._leader_ids)
            )
        ]


class _ShareResponse(Generic[Message]):
    """Base class of `FetchResponseBuilder` and `AcknowledgeResponseBuilder`.

    It adds the outcomes of acknowledgements and the current leaders, and builds the message.
    """

    message_class: type[Message]
    topic_class: type[DataContainer]
    partition_class: type[DataContainer]
    leader_class: type[DataContainer]

    def __init__(self, cluster: UpstreamCluster, listeners: Listeners) -> None:
        self._leaders = _Leaders(cluster, listeners)
        self._outcomes: Mapping[TopicIdPartition, AckResult] = {}

    def add_outcomes(self, outcomes: Mapping[TopicIdPartition, AckResult]) -> None:
        """Set the outcomes of the request's acknowledgements. Each acknowledged partition gets an entry."""
        self._outcomes = outcomes

    def build_error(self, error: RequestError) -> Message:
        """Return the response for a request that is rejected as a whole."""
        return self._message(error.code, error.message, 0, {})

    def _message(
        self, code: ErrorCode, text: str | None, lock_timeout_ms: int, entries: Mapping[TopicIdPartition, DataContainer]
    ) -> Message:
        topics: dict[UUID, list[DataContainer]] = {}
        for key, entry in entries.items():
            topics.setdefault(key.topic_id, []).append(entry)
        return self.message_class(
            throttle_time_ms=0,
            error_code=int(code),
            error_message=text,
            acquisition_lock_timeout_ms=lock_timeout_ms,
            responses=[self.topic_class(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()],
            node_endpoints=self._leaders.endpoints(self.message_class),
        )

    def _entry(self, key: TopicIdPartition, code: int, text: str | None, **more: object) -> DataContainer:
        """Return the response's entry for a partition. `more` are fields that only one type of response has."""
        leader_id, leader_epoch = self._leaders.of(key, code)
        leader = self.leader_class(leader_id=leader_id, leader_epoch=leader_epoch)
        return self.partition_class(
            partition_index=key.partition, error_code=code, error_message=text, current_leader=leader, **more
        )


class FetchResponseBuilder(_ShareResponse[ShareFetchResponse]):
    """Builds a ShareFetch response."""

    message_class = ShareFetchResponse
    topic_class = ShareFetchResponse.ShareFetchableTopicResponse
    partition_class = topic_class.PartitionData
    leader_class = partition_class.LeaderIdAndEpoch

    def __init__(self, cluster: UpstreamCluster, listeners: Listeners) -> None:
        super().__init__(cluster, listeners)
        self._records: dict[TopicIdPartition, PartitionRecords] = {}
        self._faults: dict[TopicIdPartition, ErrorCode] = {}
        self._requested: list[TopicIdPartition] = []
        self.record_count = self.byte_count = 0

    def has_records(self, key: TopicIdPartition) -> bool:
        """Return whether the response has records of the partition."""
        return key in self._records

    def add_errors(self, codes: Mapping[TopicIdPartition, ErrorCode]) -> None:
        """Add errors of partitions that cannot be read. Skip partitions that have records in the response."""
        self._faults |= {key: code for key, code in codes.items() if key not in self._records}

    @property
    def failed_partitions(self) -> Collection[TopicIdPartition]:
        """The partitions with an error."""
        return self._faults.keys()

    def add_entries(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Add an entry for each of these partitions, with or without records."""
        self._requested += partitions

    def add_records(self, key: TopicIdPartition, found: PartitionRecords) -> None:
        self._records[key] = found
        self.record_count += found.slice.record_count
        self.byte_count += found.slice.byte_count

    def remove_late_records(self, is_too_late: Callable[[TopicIdPartition, PartitionRecords], bool]) -> None:
        """Remove the records of each partition for which `is_too_late(partition, records)` is True.

        `is_too_late` returns whether the locks of the records have nearly expired. If so, it must also give the records
        back to the job.
        """
        for key, found in list(self._records.items()):
            if is_too_late(key, found):
                del self._records[key]
                self.record_count -= found.slice.record_count
                self.byte_count -= found.slice.byte_count

    def build(self, lock_timeout_ms: int, now_ms: int) -> ShareFetchBytes:
        """Return the response.

        Its AcquisitionLockTimeoutMs is the time from `now_ms` until the first lock of its records expires. Without
        records, it is `lock_timeout_ms`.
        """
        keys = [*self._records, *self._faults, *self._outcomes, *self._requested]
        entries = {key: self._partition(key) for key in dict.fromkeys(keys)}
        deadlines_ms = [found.lock_deadline_ms for found in self._records.values()]
        left_ms = max(0, min(deadlines_ms) - now_ms) if deadlines_ms else lock_timeout_ms
        message = self._message(ErrorCode.NONE, None, left_ms, entries)
        return ShareFetchBytes(message, {key: found.slice.records for key, found in self._records.items()})

    def _partition(self, key: TopicIdPartition) -> DataContainer:
        found = self._records.get(key)
        acknowledge_code, acknowledge_message = self._outcomes.get(key, (0, None))
        return self._entry(
            key,
            int(self._faults.get(key, ErrorCode.NONE)),
            None,
            acknowledge_error_code=acknowledge_code,
            acknowledge_error_message=acknowledge_message,
            records=b"",
            acquired_records=[
                self.partition_class.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in (found.slice.acquired if found is not None else ())
            ],
        )


class AcknowledgeResponseBuilder(_ShareResponse[ShareAcknowledgeResponse]):
    """Builds a ShareAcknowledge response."""

    message_class = ShareAcknowledgeResponse
    topic_class = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
    partition_class = topic_class.PartitionData
    leader_class = partition_class.LeaderIdAndEpoch

    def build(self, lock_timeout_ms: int) -> ShareAcknowledgeResponse:
        """Return the response, with an entry for each acknowledged partition."""
        entries = {key: self._entry(key, code, text) for key, (code, text) in self._outcomes.items()}
        return self._message(ErrorCode.NONE, None, lock_timeout_ms, entries)
