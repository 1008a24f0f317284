"""Administration of a group's members by rows, for callers with the job's configuration.

The coordinator's side is `core.group_coordinator.administration.member_administration`.
"""

from collections.abc import Iterable

from sharegroup.config import Config
from sharegroup.kafka_clients.row_topics.job_request import TIMEOUT_S, JobNotRespondingError, request_job
from sharegroup.kafka_clients.row_topics.row_channel import RowChannel
from sharegroup.protocol.rows.share_group_requests import (
    InvokeConsumerRebalanceRequest,
    MemberIdentity,
    RemoveMembersRequest,
)
from sharegroup.protocol.rows.share_group_responses import (
    InvokeConsumerRebalanceResponse,
    MemberError,
    RemoveMembersResponse,
)

__all__ = ["JobNotRespondingError", "invoke_consumer_rebalance", "remove_members"]


def invoke_consumer_rebalance(
    config: Config, group_id: str, timeout_s: float = TIMEOUT_S
) -> tuple[MemberIdentity, ...]:
    """Let absent static members leave now, and run the assignor (KIP-345). Return the members that left.

    Raises RequestError (INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, INVALID_REQUEST for a group without members),
    JobNotRespondingError, KafkaUnavailableError.
    """

    def request(_channel: RowChannel, name: str) -> InvokeConsumerRebalanceRequest:
        return InvokeConsumerRebalanceRequest(name, group_id, name)

    return request_job(config, group_id, request, InvokeConsumerRebalanceResponse, timeout_s).removed


def remove_members(
    config: Config, group_id: str, members: Iterable[MemberIdentity], timeout_s: float = TIMEOUT_S
) -> tuple[MemberError, ...]:
    """Remove members, whose records are released. Return the result for each.

    Raises RequestError (INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, INVALID_REQUEST), JobNotRespondingError,
    KafkaUnavailableError.
    """
    named = tuple(members)

    def request(_channel: RowChannel, name: str) -> RemoveMembersRequest:
        return RemoveMembersRequest(name, group_id, name, members=named)

    return request_job(config, group_id, request, RemoveMembersResponse, timeout_s).member_errors
