"""What a handler of the group coordinator wants done."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.config import GroupConfig
from sharegroup.core.group_coordinator.records import SoftRecord, TableRecord, TopicPartitions
from sharegroup.errors import RequestError
from sharegroup.protocol.rows.share_group_requests import (
    AdministratorRequest,
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    HeartbeatRequest,
    InvokeConsumerRebalanceRequest,
    RemoveMembersRequest,
)
from sharegroup.protocol.rows.share_group_responses import (
    AlterConfigsResponse,
    AlterOffsetsResponse,
    DeleteGroupResponse,
    DeleteOffsetsResponse,
    HeartbeatResponse,
    InvokeConsumerRebalanceResponse,
    RemoveMembersResponse,
    ShareGroupResponse,
)


class ReleaseMember(NamedTuple):
    """Release what a member that is gone has acquired: in every initialized share-partition of the group.

    Not only in those of its last assignment, as it may hold locks of an earlier one.
    """

    group_id: str
    member_id: str
    member_epoch: int
    topics: tuple[TopicPartitions, ...]


class FenceMember(NamedTuple):
    """Refuse what any other process than `incarnation_id` sends as the member, which it became by a join that was
    appended at `joined_ms`: in every initialized share-partition of the group."""

    group_id: str
    member_id: str
    incarnation_id: str
    joined_ms: int
    topics: tuple[TopicPartitions, ...]


class Configure(NamedTuple):
    """The group's effective config from here on, for every share-partition that is not being deleted.

    `id` is that of the request that altered it.
    """

    group_id: str
    id: str
    config: GroupConfig
    topics: tuple[TopicPartitions, ...]


class CoordinatorResult(NamedTuple):
    """What a handler wants done: rows for the tables, soft records, a response, and what to send before it."""

    records: tuple[TableRecord, ...] = ()
    soft_records: tuple[SoftRecord, ...] = ()
    response: ShareGroupResponse | None = None
    releases: tuple[ReleaseMember, ...] = ()
    configure: Configure | None = None
    fence: FenceMember | None = None


def named(request: HeartbeatRequest | AdministratorRequest) -> tuple[str, str, str]:
    """What a response to the request begins with."""
    return request.id, request.reply_to, request.group_id


def refused(request: HeartbeatRequest | AdministratorRequest, error: RequestError) -> CoordinatorResult:
    """A response with the error, and nothing else."""
    return CoordinatorResult(response=_refusal(request, (*named(request), int(error.code), error.message)))


def _refusal(
    request: HeartbeatRequest | AdministratorRequest, refusal: tuple[str, str, str, int, str]
) -> ShareGroupResponse:
    match request:
        case HeartbeatRequest():
            return HeartbeatResponse(*refusal, member_id=request.member_id)
        case AlterOffsetsRequest():
            return AlterOffsetsResponse(*refusal)
        case DeleteOffsetsRequest():
            return DeleteOffsetsResponse(*refusal)
        case DeleteGroupRequest():
            return DeleteGroupResponse(*refusal)
        case AlterConfigsRequest():
            return AlterConfigsResponse(*refusal)
        case InvokeConsumerRebalanceRequest():
            return InvokeConsumerRebalanceResponse(*refusal)
        case RemoveMembersRequest():
            return RemoveMembersResponse(*refusal)
