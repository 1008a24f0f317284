"""The result types of the group coordinator's handlers."""

from typing import NamedTuple

from sharegroup.config import GroupConfig
from sharegroup.core.group_coordinator.records import SoftRecord, TableRecord, TopicPartitions
from sharegroup.errors import RequestError
from sharegroup.protocol.rows.response_rows import reject_share_group_request
from sharegroup.protocol.rows.row_fields import row_values
from sharegroup.protocol.rows.share_group_requests import AdministratorRequest, HeartbeatRequest
from sharegroup.protocol.rows.share_group_responses import ShareGroupResponse


class ReleaseMember(NamedTuple):
    """A request to release the records of a departed member in every initialized share-partition of the group.

    `topics` has all these share-partitions, because the member may hold records of an earlier assignment. If its
    records must stay locked until their locks expire, `topics` is empty. Gateways are notified of the departure in both
    cases.
    """

    group_id: str
    member_id: str
    member_epoch: int
    topics: tuple[TopicPartitions, ...]


class FenceMember(NamedTuple):
    """A request to reject requests of a member's earlier processes in every initialized share-partition of the group.

    `incarnation_id` identifies the current process, whose join was appended at `joined_ms`.
    """

    group_id: str
    member_id: str
    incarnation_id: str
    joined_ms: int
    topics: tuple[TopicPartitions, ...]


class ConfigureGroup(NamedTuple):
    """A request to set the group's effective config in every share-partition that is not being deleted.

    `id` is the id of the request that altered the config.
    """

    group_id: str
    id: str
    config: GroupConfig
    topics: tuple[TopicPartitions, ...]


class CoordinatorResult(NamedTuple):
    """The result of a handler.

    `records` are written to tables. `soft_records` only change the operator's state. `releases`, `configure` and
    `fence` are requests to share-partitions. They are sent before `response`.
    """

    records: tuple[TableRecord, ...] = ()
    soft_records: tuple[SoftRecord, ...] = ()
    response: ShareGroupResponse | None = None
    releases: tuple[ReleaseMember, ...] = ()
    configure: ConfigureGroup | None = None
    fence: FenceMember | None = None


def response_header(request: HeartbeatRequest | AdministratorRequest) -> tuple[str, str, str]:
    """Return the fields that every response copies from its request: id, `reply_to` and group id."""
    return request.id, request.reply_to, request.group_id


def rejection(request: HeartbeatRequest | AdministratorRequest, error: RequestError) -> CoordinatorResult:
    """Return the result of a rejected request. It contains only the error response."""
    return CoordinatorResult(response=reject_share_group_request(row_values(request), error.code, error.message))
