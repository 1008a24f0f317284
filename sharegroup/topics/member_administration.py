"""An administrator's requests about a group's members, for one who has the job's configuration: a row, and its answer.

What the group coordinator does is in `group_coordinator.member_administration`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import TypeVar

from kafka.errors import KafkaError

from sharegroup.config import Config
from sharegroup.errors import RequestError, ShareGroupError, error_code
from sharegroup.protocol.share_group_requests import (
    InvokeConsumerRebalanceRequest,
    MemberIdentity,
    RemoveMembersRequest,
)
from sharegroup.protocol.share_group_responses import (
    InvokeConsumerRebalanceResponse,
    MemberError,
    RemoveMembersResponse,
)
from sharegroup.topics.client_settings import python_properties
from sharegroup.topics.kafka_clients import KafkaUnavailableError
from sharegroup.topics.row_channel import RowChannel, RowTopics

__all__ = ["JobNotAnsweringError", "invoke_consumer_rebalance", "remove_members"]

#: A busy job answers within seconds; one that is restarted takes a minute.
TIMEOUT_S = 120.0
_POLL_MS = 100

R = TypeVar("R", InvokeConsumerRebalanceResponse, RemoveMembersResponse)


class JobNotAnsweringError(ShareGroupError):
    """The group's job did not answer in time: is it running? It may still do what it was asked for."""


def invoke_consumer_rebalance(
    config: Config, group_id: str, timeout_s: float = TIMEOUT_S
) -> tuple[MemberIdentity, ...]:
    """Have static members that are away leave now, and the assignor run (KIP-345); those that have left.

    Raises RequestError with what the coordinator refuses it for (INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, INVALID_REQUEST
    for a group without members, and by a job of before), JobNotAnsweringError, KafkaUnavailableError.
    """
    reply_to = _reply_to()
    request = InvokeConsumerRebalanceRequest(reply_to, group_id, reply_to)
    return _ask(config, request, InvokeConsumerRebalanceResponse, timeout_s).removed


def remove_members(
    config: Config, group_id: str, members: Iterable[MemberIdentity], timeout_s: float = TIMEOUT_S
) -> tuple[MemberError, ...]:
    """Have members leave now, whose records are released; what became of each.

    Raises RequestError (INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, INVALID_REQUEST), JobNotAnsweringError,
    KafkaUnavailableError.
    """
    reply_to = _reply_to()
    request = RemoveMembersRequest(reply_to, group_id, reply_to, members=tuple(members))
    return _ask(config, request, RemoveMembersResponse, timeout_s).member_errors


def _reply_to() -> str:
    """The key of the answer; it names the one request, too."""
    return f"admin-{uuid.uuid4().hex}"


def _ask(
    config: Config, request: InvokeConsumerRebalanceRequest | RemoveMembersRequest, kind: type[R], timeout_s: float
) -> R:
    job = config.job_of(request.group_id)
    try:
        settings = python_properties(job.bootstrap_servers, job.kafka)
        channel = RowChannel(settings, RowTopics(*job.topics), request.reply_to)
        try:
            answer = _answer(channel, request, kind, time.monotonic() + timeout_s)
        finally:
            channel.close()
    except KafkaError as error:
        raise KafkaUnavailableError(f"cannot ask the job by {job.bootstrap_servers}: {error}") from error
    if answer is None:
        raise JobNotAnsweringError(f"the job of group {request.group_id} has not answered within {timeout_s:g} s")
    if answer.error_code:
        raise RequestError(error_code(answer.error_code), answer.error_message or f"error {answer.error_code}")
    return answer


def _answer(
    channel: RowChannel,
    request: InvokeConsumerRebalanceRequest | RemoveMembersRequest,
    kind: type[R],
    deadline_s: float,
) -> R | None:
    if not channel.open():  # the job has not made its topics
        return None
    channel.send([request], wait=True)
    while time.monotonic() < deadline_s:
        for response in channel.poll(_POLL_MS):
            if isinstance(response, kind) and response.id == request.id:
                return response
    return None
