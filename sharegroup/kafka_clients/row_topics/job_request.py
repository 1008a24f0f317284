"""Sends one request to a group's job as a row, and returns its response. Callers need the job's configuration."""

import time
import uuid
from collections.abc import Callable
from typing import TypeVar

from kafka.errors import KafkaError

from sharegroup.config import Config
from sharegroup.errors import RequestError, ShareGroupError, error_code
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.kafka_clients.kafka_clients import KafkaUnavailableError
from sharegroup.kafka_clients.row_topics.row_channel import RowChannel, RowTopics
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from sharegroup.protocol.rows.share_group_responses import (
    AlterConfigsResponse,
    AlterOffsetsResponse,
    InvokeConsumerRebalanceResponse,
    RemoveMembersResponse,
)

#: Default timeout in seconds. A busy job responds within seconds; a restarting job takes about a minute.
TIMEOUT_S = 120.0
_POLL_MS = 100

R = TypeVar("R", InvokeConsumerRebalanceResponse, RemoveMembersResponse, AlterOffsetsResponse, AlterConfigsResponse)


class JobNotRespondingError(ShareGroupError):
    """The group's job did not respond in time, perhaps because it is not running. It may still handle the request."""


def request_job(
    config: Config,
    group_id: str,
    request: Callable[[RowChannel, tuple[str, str, str]], ShareGroupRequest],
    kind: type[R],
    timeout_s: float = TIMEOUT_S,
) -> R:
    """Send a request to a group's job and return its response.

    `request` creates the request row from the channel and the row's header (id, group id, key of the response). `kind`
    is the class of the response.

    Raises RequestError if the coordinator rejects the request, JobNotRespondingError if there is no response within
    `timeout_s` seconds, and KafkaUnavailableError if the brokers cannot be reached.
    """
    job = config.job_for(group_id)
    name = f"admin-{uuid.uuid4().hex}"
    try:
        settings = python_properties(job.bootstrap_servers, job.kafka)
        channel = RowChannel(settings, RowTopics(*job.topics), name)
        try:
            response = _request(
                channel, lambda: request(channel, (name, group_id, name)), name, kind, time.monotonic() + timeout_s
            )
        finally:
            channel.close()
    except KafkaError as error:
        raise KafkaUnavailableError(f"could not send a request to {job.bootstrap_servers}: {error}") from error
    if response is None:
        raise JobNotRespondingError(
            f"the job of group {group_id} did not respond within {timeout_s:g} s; is it running?"
        )
    if response.error_code:
        raise RequestError(error_code(response.error_code), response.error_message or f"error {response.error_code}")
    return response


def _request(
    channel: RowChannel, request: Callable[[], ShareGroupRequest], name: str, kind: type[R], deadline_s: float
) -> R | None:
    if not channel.open():  # the job has not created its topics
        return None
    channel.send([request()], wait=True)
    while time.monotonic() < deadline_s:
        for response in channel.poll(_POLL_MS):
            if isinstance(response, kind) and response.id == name:
                return response
    return None
