"""DeleteShareGroupOffsets (KIP-932): a request row with the topics that the caller may read."""

from collections.abc import Mapping

from kafka.protocol.data_container import DataContainer

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.upstream_groups import UpstreamGroups
from sharegroup.gateway.job_client.group_requests import GroupRequests
from sharegroup.gateway.upstream.cluster import Topic, UpstreamCluster
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.protocol.messages import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from sharegroup.protocol.rows.share_group_responses import TopicError
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.security import audit
from sharegroup.security.authorization import Authorization

_Topic = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic


class DeleteShareGroupOffsets:
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

    async def __call__(self, request: Request[DeleteShareGroupOffsetsRequest]) -> DeleteShareGroupOffsetsResponse:
        """Delete the offsets of each topic; the request is rejected as a whole or per topic."""
        response = await self._delete(request)
        if response.error_code:
            audit.log_change(request.caller, "group", request.body.group_id, response.error_code)
        for topic in response.responses:
            audit.log_change(request.caller, "group", request.body.group_id, topic.error_code, topic.topic_name)
        return response

    async def _delete(self, request: Request[DeleteShareGroupOffsetsRequest]) -> DeleteShareGroupOffsetsResponse:
        body, caller = request.body, request.caller
        names = [topic.topic_name for topic in body.topics]
        readable = tuple(name for name in names if self._security.may_read(caller, name))
        try:
            self._security.authorize_delete_offsets(caller, body.group_id)
            await self._upstream_groups.check_joined(caller.node_id, body.group_id)
            known = await self._cluster.newest_topics(readable)
            errors = await self._requests.delete_offsets(body.group_id, readable)
        except RequestError as error:
            return _response([], int(error.code), error.message)
        except UpstreamUnavailableError as error:
            return _response([], int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error))
        code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        rejected = [TopicError(name, code, "Topic authorization failed.") for name in names if name not in readable]
        return _response([_topic(error, known) for error in (*errors, *rejected)], 0, None)


def _topic(error: TopicError, known: Mapping[str, Topic]) -> DataContainer:
    """Return a topic's entry. A deleted topic may still have offsets; without any it is unknown, as in Kafka."""
    topic, message = known.get(error.topic), error.error_message
    if topic is None and error.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        message = "This server does not host this topic-partition."
    return _Topic(
        topic_name=error.topic,
        topic_id=topic.topic_id if topic is not None else NO_TOPIC_ID,
        error_code=error.error_code,
        error_message=message,
    )


def _response(topics: list[DataContainer], code: int, message: str | None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(throttle_time_ms=0, error_code=code, error_message=message, responses=topics)
