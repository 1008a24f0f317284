"""Handles AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932) by sending a request row to the job.

The row contains only the topics that the caller may read. If the whole request is rejected, the response has one error.
Otherwise, it has an error code for each share-partition (AlterShareGroupOffsets) or topic (DeleteShareGroupOffsets).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.data_container import DataContainer

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.job_client.group_requests import GroupRequests
from sharegroup.gateway.upstream.cluster import Topic, UpstreamCluster
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from sharegroup.protocol.rows.share_group_requests import StartOffset
from sharegroup.protocol.rows.share_group_responses import PartitionError, TopicError
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.security import audit
from sharegroup.security.authorization import Authorization

_AlteredTopic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
_DeletedTopic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic
_REJECTED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "Topic authorization failed."


class _OffsetChange:
    """Base class of the handlers of AlterShareGroupOffsets and DeleteShareGroupOffsets.

    `security` raises RequestError if the caller lacks a right.
    """

    _response: type[AlterShareGroupOffsetsResponse | DeleteShareGroupOffsetsResponse]

    def __init__(
        self, requests: GroupRequests, cluster: UpstreamCluster, security: Authorization, groups: UpstreamGroups
    ) -> None:
        self._requests, self._cluster, self._security = requests, cluster, security
        self._upstream_groups = groups

    async def __call__(self, request: Request[Any]) -> Any:
        """Change the offsets, and write the changes to the audit log."""
        code, message, topics = 0, None, list[Any]()
        try:
            topics = await self._change(request)
        except RequestError as error:
            code, message = int(error.code), error.message
        except UpstreamUnavailableError as error:
            code, message = int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error)
        if code:
            audit.log_change(request.caller, "group", request.body.group_id, code)
        for topic in topics:
            audit.log_change(request.caller, "group", request.body.group_id, _topic_error(topic), topic.topic_name)
        return self._response(throttle_time_ms=0, error_code=code, error_message=message, responses=topics)

    async def _change(self, request: Request[Any]) -> list[DataContainer]:
        """Send the change to the job and return the topics of the response.

        Raises RequestError if the whole request is rejected, and UpstreamUnavailableError if no broker returns
        metadata.
        """
        raise NotImplementedError


class AlterShareGroupOffsets(_OffsetChange):
    """The handler of AlterShareGroupOffsets."""

    _response = AlterShareGroupOffsetsResponse

    async def _change(self, request: Request[AlterShareGroupOffsetsRequest]) -> list[DataContainer]:
        body = request.body
        self._security.authorize_alter_offsets(request.caller, body.group_id)
        await self._upstream_groups.check_joined(request.caller.node_id, body.group_id)
        readable = [topic for topic in body.topics if self._security.may_read(request.caller, topic.topic_name)]
        offsets = tuple(
            StartOffset(topic.topic_name, partition.partition_index, partition.start_offset)
            for topic in readable
            for partition in topic.partitions
        )
        known = await self._known(offsets)
        errors = await self._requests.alter_offsets(body.group_id, offsets, known) if offsets else ()
        rejected = [
            PartitionError(topic.topic_name, partition.partition_index, *_REJECTED)
            for topic in body.topics
            if topic not in readable
            for partition in topic.partitions
        ]
        return topic_errors([*errors, *rejected], known)

    async def _known(self, offsets: Iterable[StartOffset]) -> dict[str, Topic]:
        """Return {name: current topic} for the topics in `offsets`, without topics that do not exist.

        If a partition is unknown, it may be new. The metadata is then refreshed first.
        """
        names = {offset.topic for offset in offsets}
        known = await self._cluster.newest_topics(names)
        if any(offset.topic in known and offset.partition not in known[offset.topic].leaders for offset in offsets):
            await self._cluster.refresh()
            known = await self._cluster.topics(names)
        return known


class DeleteShareGroupOffsets(_OffsetChange):
    """The handler of DeleteShareGroupOffsets."""

    _response = DeleteShareGroupOffsetsResponse

    async def _change(self, request: Request[DeleteShareGroupOffsetsRequest]) -> list[DataContainer]:
        body, caller = request.body, request.caller
        names = [topic.topic_name for topic in body.topics]
        readable = tuple(name for name in names if self._security.may_read(caller, name))
        self._security.authorize_delete_offsets(caller, body.group_id)
        await self._upstream_groups.check_joined(caller.node_id, body.group_id)
        known = await self._cluster.newest_topics(readable)
        errors = await self._requests.delete_offsets(body.group_id, readable)
        rejected = [TopicError(name, *_REJECTED) for name in names if name not in readable]
        return [_deleted_topic(error, known) for error in (*errors, *rejected)]


def _topic_error(topic: Any) -> int:
    """Return the error code of a topic in a response; 0 if there is no error.

    If the partitions of the topic have their own error codes, return the first one that is not 0.
    """
    if isinstance(topic, _DeletedTopic):
        return int(topic.error_code)
    return next((partition.error_code for partition in topic.partitions if partition.error_code), 0)


def topic_errors(errors: Iterable[PartitionError], known: Mapping[str, Topic]) -> list[DataContainer]:
    """Return the topics of an AlterShareGroupOffsets response.

    `errors` contains the result of each share-partition, with error code 0 for a success. `known` is {name: topic}. A
    topic that is not in `known` gets the id of all zeros.
    """
    topics: dict[str, list[PartitionError]] = {}
    for error in errors:
        topics.setdefault(error.topic, []).append(error)
    partition = _AlteredTopic.AlterShareGroupOffsetsResponsePartition
    return [
        _AlteredTopic(
            topic_name=name,
            topic_id=known[name].topic_id if name in known else NO_TOPIC_ID,
            partitions=[
                partition(
                    partition_index=error.partition, error_code=error.error_code, error_message=error.error_message
                )
                for error in found
            ],
        )
        for name, found in topics.items()
    ]


def _deleted_topic(error: TopicError, known: Mapping[str, Topic]) -> DataContainer:
    """Return the entry for a topic in the response of DeleteShareGroupOffsets.

    Offsets may exist even if the topic has been deleted. If neither the topic nor its offsets exist, the message is the
    one that Kafka returns for an unknown topic.
    """
    topic, message = known.get(error.topic), error.error_message
    if topic is None and error.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        message = "This server does not host this topic-partition."
    return _DeletedTopic(
        topic_name=error.topic,
        topic_id=topic.topic_id if topic is not None else NO_TOPIC_ID,
        error_code=error.error_code,
        error_message=message,
    )
