"""Responses to share group requests. Data only; `response_rows` encodes and decodes the responses."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import (
    ALTER_CONFIGS,
    ALTER_OFFSETS,
    DELETE_GROUP,
    DELETE_OFFSETS,
    HEARTBEAT,
    INVOKE_CONSUMER_REBALANCE,
    REMOVE_MEMBERS,
    MemberIdentity,
)


class PartitionError(NamedTuple):
    """Error of alter_offsets for one share-partition. Error code 0 means that its start offset was altered."""

    topic: str
    partition: int
    error_code: int
    error_message: str | None


class TopicError(NamedTuple):
    """Error of delete_offsets for one topic. Error code 0 means that its offsets were deleted."""

    topic: str
    error_code: int
    error_message: str | None


class MemberError(NamedTuple):
    """Error of remove_members for one member. Error code 0 means that the member was removed."""

    member_id: str
    group_instance_id: str | None
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class _Response:
    """Fields of all responses: fields copied from the request, and the error of the whole request (0: no error)."""

    id: str
    reply_to: str
    group_id: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponse(_Response):
    """Response to a heartbeat.

    - `assignment`: {topic: [topic_id, [partition, ...]]}, or None if the member has already received it
    - `subscribed_topic_names`: the member's subscription, sorted. A gateway needs it if the member sent its
      subscription through another gateway.
    - `session_deadline_ms`: the time until which the session cannot expire, in ms since the epoch (-1: not set)
    """

    type: ClassVar[str] = HEARTBEAT

    _: KW_ONLY
    member_id: str
    member_epoch: int = -1
    heartbeat_interval_ms: int = 0
    assignment: dict[str, Any] | None = None
    subscribed_topic_names: tuple[str, ...] | None = None
    session_deadline_ms: int = -1


@dataclass(frozen=True, slots=True)
class AlterOffsetsResponse(_Response):
    """Response to alter_offsets.

    `partition_errors` has one entry for each share-partition of the request. If the whole request failed, it is empty.
    """

    type: ClassVar[str] = ALTER_OFFSETS

    _: KW_ONLY
    partition_errors: tuple[PartitionError, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteOffsetsResponse(_Response):
    """Response to delete_offsets. `topic_errors` has one entry per topic, or is empty if the whole request failed."""

    type: ClassVar[str] = DELETE_OFFSETS

    _: KW_ONLY
    topic_errors: tuple[TopicError, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroupResponse(_Response):
    """Response to delete_group. If there is no error, the group has been deleted."""

    type: ClassVar[str] = DELETE_GROUP


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse(_Response):
    """Response to alter_configs. No error means that the configs were set or, with `validate_only`, are valid."""

    type: ClassVar[str] = ALTER_CONFIGS


@dataclass(frozen=True, slots=True)
class InvokeConsumerRebalanceResponse(_Response):
    """Response to invoke_consumer_rebalance. `removed` are the static members that the rebalance has removed."""

    type: ClassVar[str] = INVOKE_CONSUMER_REBALANCE

    _: KW_ONLY
    removed: tuple[MemberIdentity, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveMembersResponse(_Response):
    """Response to remove_members. `member_errors` has one entry per member, or is empty if the whole request failed."""

    type: ClassVar[str] = REMOVE_MEMBERS

    _: KW_ONLY
    member_errors: tuple[MemberError, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupRejection(_Response):
    """Error response to an invalid notice, or to a row of unknown type. `type` is the type of this row."""

    _: KW_ONLY
    type: str


ShareGroupResponse = (
    HeartbeatResponse
    | AlterOffsetsResponse
    | DeleteOffsetsResponse
    | DeleteGroupResponse
    | AlterConfigsResponse
    | InvokeConsumerRebalanceResponse
    | RemoveMembersResponse
    | ShareGroupRejection
)
