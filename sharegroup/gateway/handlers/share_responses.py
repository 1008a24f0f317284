"""The responses of ShareFetch and ShareAcknowledge while they are put together: one entry for each partition.

Every partition that was acknowledged is echoed, and records are empty bytes where there are none, never null: clients
stall without the one or the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from kafka.protocol.data_container import DataContainer

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.sessions.member_partition import AckResult
from sharegroup.gateway.sessions.member_session import PartRecords
from sharegroup.gateway.sessions.share_session import TopicIdPartition
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.protocol.messages import ShareAcknowledgeResponse, ShareFetchResponse

_NO_LEADER = (-1, -1)


class _Leaders:
    """Who leads now, for clients that came to the wrong node."""

    def __init__(self, cluster: UpstreamCluster, listeners: Listeners, node_id: int) -> None:
        self._cluster, self._listeners, self._node_id = cluster, listeners, node_id
        self._named: set[int] = set()

    def of(self, key: TopicIdPartition, error_code: int) -> tuple[int, int]:
        """(leader, epoch) of a partition whose entry has this error."""
        if error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return _NO_LEADER
        topic = self._cluster.topic_by_id(key.topic_id)
        leader = topic.leaders.get(key.partition) if topic is not None else None
        if leader is None or not self._listeners.has(leader.node_id):
            return _NO_LEADER
        self._named.add(leader.node_id)
        return leader.node_id, leader.epoch

    def endpoints(self, message: type[ShareFetchResponse] | type[ShareAcknowledgeResponse]) -> list[DataContainer]:
        """NodeEndpoints: our addresses of the leaders that were named."""
        return [
            message.NodeEndpoint(
                node_id=node_id, host=self._listeners.host, port=self._listeners.port(node_id), rack=None
            )
            for node_id in sorted(self._named)
        ]


class FetchResponse:
    """A ShareFetch response in the making."""

    def __init__(self, cluster: UpstreamCluster, listeners: Listeners, node_id: int) -> None:
        self._leaders = _Leaders(cluster, listeners, node_id)
        self._records: dict[TopicIdPartition, PartRecords] = {}
        self._faults: dict[TopicIdPartition, ErrorCode] = {}
        self._outcomes: Mapping[TopicIdPartition, AckResult] = {}
        self._deadline_ms: int | None = None
        self.record_count = self.byte_count = 0

    def has_records(self, key: TopicIdPartition) -> bool:
        """Whether the partition's records are in."""
        return key in self._records

    def faults(self, codes: Mapping[TopicIdPartition, ErrorCode]) -> None:
        """Why partitions cannot be read here; those whose records are in have none."""
        self._faults |= {key: code for key, code in codes.items() if key not in self._records}

    def records(self, key: TopicIdPartition, found: PartRecords) -> None:
        """A partition's records."""
        self._records[key] = found
        self.record_count += found.slice.record_count
        self.byte_count += found.slice.byte_count
        deadline_ms = found.lock_deadline_ms
        self._deadline_ms = deadline_ms if self._deadline_ms is None else min(self._deadline_ms, deadline_ms)

    def acknowledged(self, outcomes: Mapping[TopicIdPartition, AckResult]) -> None:
        """How the acknowledgements ended."""
        self._outcomes = outcomes

    def message(self, lock_timeout_ms: int, now_ms: int) -> ShareFetchResponse:
        """The message; the lock time told is what is left of the shortest lock in it."""
        topics: dict[UUID, list[DataContainer]] = {}
        for key in dict.fromkeys([*self._records, *self._faults, *self._outcomes]):
            topics.setdefault(key.topic_id, []).append(self._partition(key))
        left_ms = lock_timeout_ms if self._deadline_ms is None else max(0, self._deadline_ms - now_ms)
        return _fetch_message(ErrorCode.NONE, None, left_ms, topics, self._leaders)

    def failed(self, error: RequestError) -> ShareFetchResponse:
        """The whole request is refused."""
        return _fetch_message(error.code, error.message, 0, {}, self._leaders)

    def _partition(self, key: TopicIdPartition) -> DataContainer:
        data = ShareFetchResponse.ShareFetchableTopicResponse.PartitionData
        found = self._records.get(key)
        code = int(self._faults.get(key, ErrorCode.NONE))
        acknowledge_code, acknowledge_message = self._outcomes.get(key, (0, None))
        leader_id, leader_epoch = self._leaders.of(key, code)
        return data(
            partition_index=key.partition,
            error_code=code,
            error_message=None,
            acknowledge_error_code=acknowledge_code,
            acknowledge_error_message=acknowledge_message,
            current_leader=data.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
            records=b"".join(found.slice.records) if found is not None else b"",
            acquired_records=[
                data.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in (found.slice.acquired if found is not None else ())
            ],
        )


class AcknowledgeResponse:
    """A ShareAcknowledge response in the making."""

    def __init__(self, cluster: UpstreamCluster, listeners: Listeners, node_id: int) -> None:
        self._leaders = _Leaders(cluster, listeners, node_id)
        self._outcomes: Mapping[TopicIdPartition, AckResult] = {}

    def acknowledged(self, outcomes: Mapping[TopicIdPartition, AckResult]) -> None:
        """How the acknowledgements ended."""
        self._outcomes = outcomes

    def message(self, lock_timeout_ms: int) -> ShareAcknowledgeResponse:
        """The message."""
        topics: dict[UUID, list[DataContainer]] = {}
        data = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse.PartitionData
        for key, (code, text) in self._outcomes.items():
            leader_id, leader_epoch = self._leaders.of(key, code)
            leader = data.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            entry = data(partition_index=key.partition, error_code=code, error_message=text, current_leader=leader)
            topics.setdefault(key.topic_id, []).append(entry)
        return _acknowledge_message(ErrorCode.NONE, None, lock_timeout_ms, topics, self._leaders)

    def failed(self, error: RequestError) -> ShareAcknowledgeResponse:
        """The whole request is refused."""
        return _acknowledge_message(error.code, error.message, 0, {}, self._leaders)


def _fetch_message(
    code: ErrorCode,
    text: str | None,
    lock_timeout_ms: int,
    topics: Mapping[UUID, list[DataContainer]],
    leaders: _Leaders,
) -> ShareFetchResponse:
    message = ShareFetchResponse
    return message(
        throttle_time_ms=0,
        error_code=int(code),
        error_message=text,
        acquisition_lock_timeout_ms=lock_timeout_ms,
        responses=[
            message.ShareFetchableTopicResponse(topic_id=topic_id, partitions=entries)
            for topic_id, entries in topics.items()
        ],
        node_endpoints=leaders.endpoints(message),
    )


def _acknowledge_message(
    code: ErrorCode,
    text: str | None,
    lock_timeout_ms: int,
    topics: Mapping[UUID, list[DataContainer]],
    leaders: _Leaders,
) -> ShareAcknowledgeResponse:
    message = ShareAcknowledgeResponse
    return message(
        throttle_time_ms=0,
        error_code=int(code),
        error_message=text,
        acquisition_lock_timeout_ms=lock_timeout_ms,
        responses=[
            message.ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=entries)
            for topic_id, entries in topics.items()
        ],
        node_endpoints=leaders.endpoints(message),
    )
