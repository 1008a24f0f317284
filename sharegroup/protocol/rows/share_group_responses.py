"""Rows of the response topic about one group: the answer to each kind of request. Data only; `response_rows` reads and
writes them."""

from __future__ import annotations

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
    """What happened to one share-partition of alter_offsets; error code 0 where it was altered."""

    topic: str
    partition: int
    error_code: int
    error_message: str | None


class TopicError(NamedTuple):
    """What happened to one topic of delete_offsets; error code 0 where its offsets are deleted."""

    topic: str
    error_code: int
    error_message: str | None


class MemberError(NamedTuple):
    """What happened to one member of remove_members; error code 0 where it was removed."""

    member_id: str
    group_instance_id: str | None
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class _Response:
    """What every kind says: what it answers, and what that was refused for as a whole (error code 0: it was not)."""

    id: str
    reply_to: str
    group_id: str
    error_code: int = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatResponse(_Response):
    """`assignment` is {topic: [topic_id, [partition, ...]]}, None when it did not change.

    `subscribed_topic_names` is the member's subscription as the group has it, sorted, which tells a gateway that took a
    member over. `session_deadline_ms` is until when it stays a member whatever happens to its next heartbeats, in
    milliseconds since the epoch (-1: not told).
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
    """`partition_errors` has an entry for each share-partition of the request, unless that was refused as a whole."""

    type: ClassVar[str] = ALTER_OFFSETS

    _: KW_ONLY
    partition_errors: tuple[PartitionError, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteOffsetsResponse(_Response):
    """`topic_errors` has an entry for each topic of the request, unless that was refused as a whole."""

    type: ClassVar[str] = DELETE_OFFSETS

    _: KW_ONLY
    topic_errors: tuple[TopicError, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroupResponse(_Response):
    """The group is deleted, or was not there to be."""

    type: ClassVar[str] = DELETE_GROUP


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse(_Response):
    """The configs are in force, or were only checked."""

    type: ClassVar[str] = ALTER_CONFIGS


@dataclass(frozen=True, slots=True)
class InvokeConsumerRebalanceResponse(_Response):
    """`removed` are the static members that were away and have left."""

    type: ClassVar[str] = INVOKE_CONSUMER_REBALANCE

    _: KW_ONLY
    removed: tuple[MemberIdentity, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveMembersResponse(_Response):
    """`member_errors` has an entry for each member of the request, unless that was refused as a whole."""

    type: ClassVar[str] = REMOVE_MEMBERS

    _: KW_ONLY
    member_errors: tuple[MemberError, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupRefusal(_Response):
    """The answer to a row that is of no kind, or to a notice that is wrong; `type` is what it said."""

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
    | ShareGroupRefusal
)
