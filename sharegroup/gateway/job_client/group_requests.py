"""Administrators' requests to the group coordinator query, and their answers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypedDict, Unpack

from kafka.protocol.api_message import ApiMessage

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.job_client.job_channel import JobChannel, JobUnavailableError
from sharegroup.gateway.upstream.cluster import Topic
from sharegroup.gateway.wire.request import Request
from sharegroup.protocol.request_rows import ShareGroupRequest, StartOffset, TopicMetadata
from sharegroup.protocol.response_rows import ShareGroupResponse
from sharegroup.protocol.topic_ids import topic_id_text

logger = logging.getLogger(__name__)


class RowFields(TypedDict, total=False):
    """What a row has beside its type, its group and who asks."""

    topics: Mapping[str, TopicMetadata]
    offsets: tuple[StartOffset, ...]
    topic_names: tuple[str, ...]
    configs: Mapping[str, str | None]
    validate_only: bool


class GroupRequests:
    """One row each; when the answer is there, the tables have what it says."""

    def __init__(self, job: JobChannel) -> None:
        self._job = job

    async def ask(
        self, request: Request[ApiMessage], kind: str, group_id: str, **fields: Unpack[RowFields]
    ) -> ShareGroupResponse:
        """The answer to a row of type `kind`.

        Raises RequestError with what the coordinator refuses the request for, or COORDINATOR_NOT_AVAILABLE.
        """
        row = ShareGroupRequest(
            kind,
            self._job.new_id(),
            group_id,
            reply_to=self._job.reply_to,
            client_id=request.header.client_id,
            client_host=f"/{request.caller.host}",
            **fields,
        )
        try:
            answer = await self._job.ask(row)
        except JobUnavailableError as error:
            logger.warning("%s of group %s: %s", kind, group_id, error)
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        assert isinstance(answer, ShareGroupResponse)
        if answer.error_code:
            raise RequestError(ErrorCode(answer.error_code), answer.error_message or "")
        return answer


def topics_metadata(topics: Mapping[str, Topic]) -> dict[str, TopicMetadata]:
    """Topics as rows to the group coordinator name them, sorted."""
    return {
        name: TopicMetadata(topic_id_text(topic.topic_id), len(topic.leaders)) for name, topic in sorted(topics.items())
    }
