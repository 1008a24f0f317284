"""Requests of administrators to the job's group coordinator, and their responses."""

import logging
from collections.abc import Mapping

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.job_client.job_channel import JobChannel, JobUnavailableError
from sharegroup.gateway.upstream.cluster import Topic
from sharegroup.log_fields import LogFields
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_group_requests import (
    AdministratorRequest,
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    InvokeConsumerRebalanceRequest,
    MemberIdentity,
    RemoveMembersRequest,
    StartOffset,
    TopicMetadata,
)
from sharegroup.protocol.rows.share_group_responses import (
    AlterOffsetsResponse,
    DeleteOffsetsResponse,
    InvokeConsumerRebalanceResponse,
    MemberError,
    PartitionError,
    RemoveMembersResponse,
    TopicError,
)
from sharegroup.protocol.topic_ids import topic_id_text

logger = logging.getLogger(__name__)


class GroupRequests:
    """Sends administrators' requests to the group coordinator, one request row per call.

    When a call returns, the job's tables contain the result.

    Each method raises RequestError if the coordinator returns an error. If the job does not respond in time, the error
    is COORDINATOR_LOAD_IN_PROGRESS while the job is loading, else COORDINATOR_NOT_AVAILABLE.
    """

    def __init__(self, job: JobChannel) -> None:
        self._job = job

    async def alter_offsets(
        self, group_id: str, offsets: tuple[StartOffset, ...], topics: Mapping[str, Topic]
    ) -> tuple[PartitionError, ...]:
        """Set start offsets and return the result of each partition.

        `topics` must contain the metadata of all topics in `offsets` that exist.
        """
        row = AlterOffsetsRequest(*self._row_header(group_id), offsets=offsets, topics=topics_metadata(topics))
        response = await self._request(row)
        assert isinstance(response, AlterOffsetsResponse)
        return response.partition_errors

    async def delete_offsets(self, group_id: str, topic_names: tuple[str, ...]) -> tuple[TopicError, ...]:
        response = await self._request(DeleteOffsetsRequest(*self._row_header(group_id), topic_names=topic_names))
        assert isinstance(response, DeleteOffsetsResponse)
        return response.topic_errors

    async def delete_group(self, group_id: str) -> None:
        """Delete the group, but not its configs."""
        await self._request(DeleteGroupRequest(*self._row_header(group_id)))

    async def alter_configs(self, group_id: str, configs: Mapping[str, str | None], validate_only: bool) -> None:
        """Set configs of the group, and delete those whose value is None.

        With `validate_only`, the coordinator checks the values but changes nothing.
        """
        await self._request(
            AlterConfigsRequest(*self._row_header(group_id), configs=configs, validate_only=validate_only)
        )

    async def invoke_consumer_rebalance(self, group_id: str) -> tuple[MemberIdentity, ...]:
        """Remove the static members that are away, run the assignor now, and return the removed members."""
        response = await self._request(InvokeConsumerRebalanceRequest(*self._row_header(group_id)))
        assert isinstance(response, InvokeConsumerRebalanceResponse)
        return response.removed

    async def remove_members(self, group_id: str, members: tuple[MemberIdentity, ...]) -> tuple[MemberError, ...]:
        response = await self._request(RemoveMembersRequest(*self._row_header(group_id), members=members))
        assert isinstance(response, RemoveMembersResponse)
        return response.member_errors

    def _row_header(self, group_id: str) -> tuple[str, str, str]:
        return self._job.new_id(), group_id, self._job.reply_to

    async def _request(self, row: AdministratorRequest) -> Response:
        try:
            response = await self._job.ask(row)
        except JobUnavailableError as error:
            logger.warning(
                "the request %(detail)s for group %(group)s failed: %(error)s",
                LogFields(detail=row.type, group=row.group_id, error=error),
            )
            raise RequestError(error.code, str(error)) from error
        if response.error_code:
            raise RequestError(ErrorCode(response.error_code), response.error_message or "")
        return response


def topics_metadata(topics: Mapping[str, Topic]) -> dict[str, TopicMetadata]:
    """Return {topic name: topic id and number of partitions}, sorted by name, for a row to the group coordinator."""
    return {
        name: TopicMetadata(topic_id_text(topic.topic_id), len(topic.leaders)) for name, topic in sorted(topics.items())
    }
