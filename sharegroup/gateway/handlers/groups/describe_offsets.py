"""Handles DescribeShareGroupOffsets (KIP-932, KIP-1226): returns start offsets from the job's tables, and the lag.

The lag is computed with the log end offsets that the upstream brokers return.
"""

from collections.abc import Collection, Iterable, Mapping

from kafka import TopicPartition
from kafka.protocol.data_container import DataContainer

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.gateway.upstream.cluster import Topic, UpstreamCluster
from sharegroup.gateway.upstream.log_ends import log_end_offsets
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.protocol.messages import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from sharegroup.protocol.topic_ids import NO_TOPIC_ID, topic_id_text
from sharegroup.security.authorization import Authorization
from sharegroup.security.caller import Caller
from sharegroup.storage import SharePartitionOffset

UNKNOWN = -1
#: The first version whose response contains the lag.
LAG_VERSION = 1

_Group = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
_Topic = _Group.DescribeShareGroupOffsetsResponseTopic
_Partition = _Topic.DescribeShareGroupOffsetsResponsePartition


class DescribeShareGroupOffsets:
    """The handler of DescribeShareGroupOffsets. `security` raises RequestError if the caller lacks a right."""

    def __init__(self, stored: StoredGroups, cluster: UpstreamCluster, security: Authorization) -> None:
        self._stored, self._cluster, self._security = stored, cluster, security

    async def __call__(self, request: Request[DescribeShareGroupOffsetsRequest]) -> DescribeShareGroupOffsetsResponse:
        """Describe each group separately. An error of one group does not affect the others."""
        requested, with_lag = request.body.groups, request.version >= LAG_VERSION
        try:
            offsets = await self._stored.offsets(group.group_id for group in requested)
        except RequestError as error:
            groups = [_group(group.group_id, [], int(error.code), error.message) for group in requested]
        else:
            groups = [
                await self._group(request.caller, group, offsets.get(group.group_id, ()), with_lag)
                for group in requested
            ]
        return DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=groups)

    async def _group(
        self, caller: Caller, requested: DataContainer, offsets: Collection[SharePartitionOffset], with_lag: bool
    ) -> DataContainer:
        try:
            self._security.authorize_describe_group(caller, requested.group_id)
            topics = await self._topics(caller, requested.topics, offsets, with_lag)
        except UpstreamUnavailableError as error:
            return _group(requested.group_id, [], int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error))
        except RequestError as error:
            return _group(requested.group_id, [], int(error.code), error.message)
        return _group(requested.group_id, topics, 0, None)

    async def _topics(
        self,
        caller: Caller,
        requested: Iterable[DataContainer] | None,
        offsets: Collection[SharePartitionOffset],
        with_lag: bool,
    ) -> list[DataContainer]:
        by_topic = partitions_to_describe(
            None if requested is None else [(t.topic_name, t.partitions) for t in requested], offsets
        )
        known = await self._cluster.newest_topics(by_topic)
        hidden = {name for name in by_topic if not self._security.may_see(caller, name)}
        current = [row for row in offsets if row.topic not in hidden and _is_current(row, known.get(row.topic))]
        if requested is None:  # hidden topics that were not requested by name are omitted, not rejected
            by_topic = partitions_to_describe(None, current)
        found = {TopicPartition(row.topic, row.partition): row for row in current}
        counted = [
            key for key, row in found.items() if with_lag and has_lag(row) and key[1] in by_topic.get(key[0], ())
        ]
        ends = await log_end_offsets(self._cluster, counted) if counted else {}
        rejected = [_rejected(name, partitions) for name, partitions in by_topic.items() if name in hidden]
        return [
            *(
                _topic(name, partitions, known.get(name), found, ends)
                for name, partitions in by_topic.items()
                if name not in hidden
            ),
            *rejected,
        ]


def partitions_to_describe(
    requested: Iterable[tuple[str, Iterable[int]]] | None, offsets: Iterable[SharePartitionOffset]
) -> dict[str, list[int]]:
    """Return {topic: partitions to describe}: those in `requested`, or all in `offsets` if `requested` is None.

    `requested` contains (topic, partitions) pairs.
    """
    if requested is None:
        requested = [(row.topic, (row.partition,)) for row in offsets]
    partitions_of: dict[str, list[int]] = {}
    for topic, partitions in requested:
        partitions_of.setdefault(topic, []).extend(partitions)
    return partitions_of


def _is_current(row: SharePartitionOffset, topic: Topic | None) -> bool:
    """Return whether a row belongs to `topic`, the current topic of this name, and not to a deleted topic.

    If `topic` has a made id, a deleted topic of this name had the same id. The result is then always True.
    """
    return topic is not None and (topic.has_made_id or row.topic_id == topic_id_text(topic.topic_id))


def has_lag(row: SharePartitionOffset) -> bool:
    """Return whether the lag can be computed.

    That requires a start offset and the number of finished records.
    """
    return row.start_offset >= 0 and row.delivery_complete_count >= 0


def lag(row: SharePartitionOffset, log_end_offset: int | None) -> int:
    """Return the lag (KIP-1226): how many records from the start offset on are not finished; -1 if it is unknown."""
    if log_end_offset is None or not has_lag(row):
        return UNKNOWN
    return max(0, log_end_offset - row.start_offset - row.delivery_complete_count)


def _topic(
    name: str,
    partitions: Iterable[int],
    known: Topic | None,
    found: Mapping[TopicPartition, SharePartitionOffset],
    ends: Mapping[TopicPartition, int],
) -> DataContainer:
    return _Topic(
        topic_name=name,
        topic_id=known.topic_id if known is not None else NO_TOPIC_ID,
        partitions=[
            _partition(key.partition, found.get(key), ends.get(key))
            for key in (TopicPartition(name, partition) for partition in partitions)
        ],
    )


def _partition(
    index: int, row: SharePartitionOffset | None, log_end_offset: int | None, error: tuple[int, str | None] = (0, None)
) -> DataContainer:
    """Return the response's entry for a partition.

    If `row` is None, the group has no offset. The entry's start offset, leader epoch and lag are then -1.
    """
    code, message = error
    return _Partition(
        partition_index=index,
        start_offset=row.start_offset if row is not None else UNKNOWN,
        leader_epoch=row.leader_epoch if row is not None else UNKNOWN,
        lag=lag(row, log_end_offset) if row is not None else UNKNOWN,
        error_code=code,
        error_message=message,
    )


def _rejected(name: str, partitions: Iterable[int]) -> DataContainer:
    error = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "Topic authorization failed."
    entries = [_partition(partition, None, None, error) for partition in partitions]
    return _Topic(topic_name=name, topic_id=NO_TOPIC_ID, partitions=entries)


def _group(group_id: str, topics: list[DataContainer], code: int, message: str | None) -> DataContainer:
    return _Group(group_id=group_id, topics=topics, error_code=code, error_message=message)
