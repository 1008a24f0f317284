"""AlterShareGroupOffsets (KIP-932): a request row with the topics that the caller may read."""

from collections.abc import Iterable, Mapping

from kafka.protocol.data_container import DataContainer

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.job_client.group_requests import GroupRequests
from sharegroup.gateway.upstream.cluster import Topic, UpstreamCluster
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.protocol.messages import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from sharegroup.protocol.rows.share_group_requests import StartOffset
from sharegroup.protocol.rows.share_group_responses import PartitionError
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.security import audit
from sharegroup.security.authorization import Authorization

_Topic = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
_Partition = _Topic.AlterShareGroupOffsetsResponsePartition


class AlterShareGroupOffsets:
    """The handler. `security` raises RequestError for what the caller may not do."""

    def __init__(
        self,
        requests: GroupRequests,
        cluster: UpstreamCluster,
        security: Authorization,
        upstream_groups: UpstreamGroups,
    ) -> None:
        self._requests, self._cluster, self._security = requests, cluster, security
        self._upstream_groups = upstream_groups

    async def __call__(self, request: Request[AlterShareGroupOffsetsRequest]) -> AlterShareGroupOffsetsResponse:
        """Alter the start offsets; the request is rejected as a whole or per share-partition."""
        response = await self._alter(request)
        if response.error_code:
            audit.log_change(request.caller, "group", request.body.group_id, response.error_code)
        for topic in response.responses:
            code = next((partition.error_code for partition in topic.partitions if partition.error_code), 0)
            audit.log_change(request.caller, "group", request.body.group_id, code, topic.topic_name)
        return response

    async def _alter(self, request: Request[AlterShareGroupOffsetsRequest]) -> AlterShareGroupOffsetsResponse:
        body = request.body
        try:
            self._security.authorize_alter_offsets(request.caller, body.group_id)
            await self._upstream_groups.check_joined(request.caller.node_id, body.group_id)
            readable = [topic for topic in body.topics if self._security.may_read(request.caller, topic.topic_name)]
            offsets = _offsets(readable)
            known = await self._known(offsets)
            errors = await self._requests.alter_offsets(body.group_id, offsets, known) if offsets else ()
        except RequestError as error:
            return _response([], int(error.code), error.message)
        except UpstreamUnavailableError as error:
            return _response([], int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error))
        rejected = [topic for topic in body.topics if topic not in readable]
        return _response(topic_errors([*errors, *_rejected(rejected)], known), 0, None)

    async def _known(self, offsets: Iterable[StartOffset]) -> dict[str, Topic]:
        """Return the current topics; refresh the metadata if a partition is unknown, because it may be new."""
        names = {offset.topic for offset in offsets}
        known = await self._cluster.newest_topics(names)
        if any(offset.topic in known and offset.partition not in known[offset.topic].leaders for offset in offsets):
            await self._cluster.refresh()
            known = await self._cluster.topics(names)
        return known


def _offsets(topics: Iterable[DataContainer]) -> tuple[StartOffset, ...]:
    return tuple(
        StartOffset(topic.topic_name, partition.partition_index, partition.start_offset)
        for topic in topics
        for partition in topic.partitions
    )


def _rejected(topics: Iterable[DataContainer]) -> list[PartitionError]:
    code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return [
        PartitionError(topic.topic_name, partition.partition_index, code, "Topic authorization failed.")
        for topic in topics
        for partition in topic.partitions
    ]


def topic_errors(errors: Iterable[PartitionError], known: Mapping[str, Topic]) -> list[DataContainer]:
    """Return the errors of share-partitions as the topics of the response."""
    topics: dict[str, list[PartitionError]] = {}
    for error in errors:
        topics.setdefault(error.topic, []).append(error)
    return [
        _Topic(
            topic_name=name,
            topic_id=known[name].topic_id if name in known else NO_TOPIC_ID,
            partitions=[
                _Partition(
                    partition_index=error.partition, error_code=error.error_code, error_message=error.error_message
                )
                for error in found
            ],
        )
        for name, found in topics.items()
    ]


def _response(topics: list[DataContainer], code: int, message: str | None) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(throttle_time_ms=0, error_code=code, error_message=message, responses=topics)
