"""What a handler of the group coordinator wants done."""

from __future__ import annotations

from typing import Any, NamedTuple

from sharegroup.config import GroupConfig
from sharegroup.errors import RequestError
from sharegroup.group_coordinator.records import SoftRecord, TableRecord, TopicPartitions
from sharegroup.protocol.request_rows import ShareGroupRequest
from sharegroup.protocol.response_rows import ShareGroupResponse

__all__ = ["Configure", "CoordinatorResult", "ReleaseMember", "refused", "response_to"]


class ReleaseMember(NamedTuple):
    """Release what a member that is gone has acquired: in every initialized share-partition of the group.

    Not only in those of its last assignment, as it may hold locks of an earlier one.
    """

    group_id: str
    member_id: str
    member_epoch: int
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


def response_to(request: ShareGroupRequest, **fields: Any) -> ShareGroupResponse:
    """The response to a request; `fields` are those beside the request's own."""
    return ShareGroupResponse(request.type, request.id, request.reply_to, request.group_id, request.member_id, **fields)


def refused(request: ShareGroupRequest, error: RequestError) -> CoordinatorResult:
    """A response with the error, and nothing else."""
    return CoordinatorResult(response=response_to(request, error_code=int(error.code), error_message=error.message))
