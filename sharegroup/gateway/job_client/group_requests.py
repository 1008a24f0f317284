"""Administrators' requests to the group coordinator query, and their answers."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.job_client.job_channel import JobChannel, JobUnavailableError
from sharegroup.gateway.upstream.cluster import Topic
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
    """One row each; when the answer is there, the tables have what it says.

    Each raises RequestError with what the coordinator refuses the request for; COORDINATOR_LOAD_IN_PROGRESS while
    the job loads, and COORDINATOR_NOT_AVAILABLE while it is away.
    """

    def __init__(self, job: JobChannel) -> None:
        self._job = job

    async def alter_offsets(
        self, group_id: str, offsets: tuple[StartOffset, ...], topics: Mapping[str, Topic]
    ) -> tuple[PartitionError, ...]:
        """What became of each of the start offsets; `topics` are those of their topics that there are."""
        row = AlterOffsetsRequest(*self._named(group_id), offsets=offsets, topics=topics_metadata(topics))
        answer = await self._ask(row)
        assert isinstance(answer, AlterOffsetsResponse)
        return answer.partition_errors

    async def delete_offsets(self, group_id: str, topic_names: tuple[str, ...]) -> tuple[TopicError, ...]:
        """What became of each of the topics' offsets."""
        answer = await self._ask(DeleteOffsetsRequest(*self._named(group_id), topic_names=topic_names))
        assert isinstance(answer, DeleteOffsetsResponse)
        return answer.topic_errors

    async def delete_group(self, group_id: str) -> None:
        """Delete the group; what is configured for it stays."""
        await self._ask(DeleteGroupRequest(*self._named(group_id)))

    async def alter_configs(self, group_id: str, configs: Mapping[str, str | None], validate_only: bool) -> None:
        """Set the group's configs (None: take away), or only check them."""
        await self._ask(AlterConfigsRequest(*self._named(group_id), configs=configs, validate_only=validate_only))

    async def invoke_consumer_rebalance(self, group_id: str) -> tuple[MemberIdentity, ...]:
        """Have static members that are away leave, and the assignor run; those that have left."""
        answer = await self._ask(InvokeConsumerRebalanceRequest(*self._named(group_id)))
        assert isinstance(answer, InvokeConsumerRebalanceResponse)
        return answer.removed

    async def remove_members(self, group_id: str, members: tuple[MemberIdentity, ...]) -> tuple[MemberError, ...]:
        """What became of each of the members."""
        answer = await self._ask(RemoveMembersRequest(*self._named(group_id), members=members))
        assert isinstance(answer, RemoveMembersResponse)
        return answer.member_errors

    def _named(self, group_id: str) -> tuple[str, str, str]:
        return self._job.new_id(), group_id, self._job.reply_to

    async def _ask(self, row: AdministratorRequest) -> Response:
        try:
            answer = await self._job.ask(row)
        except JobUnavailableError as error:
            logger.warning("%s of group %s: %s", row.type, row.group_id, error)
            raise RequestError(error.code, str(error)) from error
        if answer.error_code:
            raise RequestError(ErrorCode(answer.error_code), answer.error_message or "")
        return answer


def topics_metadata(topics: Mapping[str, Topic]) -> dict[str, TopicMetadata]:
    """Topics as rows to the group coordinator name them, sorted."""
    return {
        name: TopicMetadata(topic_id_text(topic.topic_id), len(topic.leaders)) for name, topic in sorted(topics.items())
    }
