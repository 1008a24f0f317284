"""Rows of `__share_group_requests`: JSON objects, keyed by the group id. Data and checks only.

A row is a heartbeat, a request of an administrator, or a notice from the job's share_partition query. Each type of row
has a class. `decode_share_group_request` returns an instance of this class.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from sharegroup.protocol.json_text import to_json
from sharegroup.protocol.rows import share_group_fields
from sharegroup.protocol.rows.row_fields import (
    MAX_INT32,
    boolean,
    check_header,
    integer,
    json_object,
    row_values,
    text,
)
from sharegroup.protocol.rows.share_group_fields import MemberIdentity as MemberIdentity
from sharegroup.protocol.rows.share_group_fields import StartOffset as StartOffset
from sharegroup.protocol.rows.share_group_fields import TopicMetadata as TopicMetadata

HEARTBEAT = "heartbeat"
INITIALIZED = "initialized"
DELETED = "deleted"
TOPIC_DELETED = "topic_deleted"
ALTER_OFFSETS = "alter_offsets"
DELETE_OFFSETS = "delete_offsets"
DELETE_GROUP = "delete_group"
ALTER_CONFIGS = "alter_configs"
INVOKE_CONSUMER_REBALANCE = "invoke_consumer_rebalance"
REMOVE_MEMBERS = "remove_members"


@dataclass(frozen=True, slots=True)
class _Row:
    """Fields of all rows of `__share_group_requests`.

    `reply_to` is the key of the response. If it is empty, no response is sent.
    """

    type: ClassVar[str]

    id: str
    group_id: str
    reply_to: str = ""

    def encode(self) -> bytes:
        """Return the record value, a JSON object."""
        return to_json(row_values(self)).encode()

    @property
    def kafka_key(self) -> bytes:
        """The record key, the group id. All rows of a group are therefore in one Kafka partition."""
        return self.group_id.encode()


@dataclass(frozen=True, slots=True)
class HeartbeatRequest(_Row):
    """Heartbeat of a member.

    - `member_epoch`: the epoch that was last sent to the member. Other values: 0 joins the group, -1 leaves it, and -2
      leaves it for a restart (only static members, KIP-848).
    - `subscribed_topic_names`: the subscription, or None if it has not changed
    - `topics`: the metadata of those subscribed topics that the requester knows
    - `group_instance_id`: set for a static member (KIP-345), None for a dynamic member
    - `incarnation_id`: a unique id of the process that acts as the member, or None if it has no such id
    """

    type: ClassVar[str] = HEARTBEAT

    _: KW_ONLY
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] | None = None
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    group_instance_id: str | None = None
    incarnation_id: str | None = None


@dataclass(frozen=True, slots=True)
class InitializedNotice(_Row):
    """Tells the group coordinator that the initial states of some share-partitions are durable.

    `initialized` has (topic id, partition, state epoch) for each of them.
    """

    type: ClassVar[str] = INITIALIZED

    _: KW_ONLY
    initialized: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class DeletedNotice(_Row):
    """Tells the group coordinator that the states of some share-partitions are durably deleted.

    `deleted` has (topic id, partition, state epoch) for each of them.
    """

    type: ClassVar[str] = DELETED

    _: KW_ONLY
    deleted: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class TopicDeletedNotice(_Row):
    """Tells the group coordinator that the topics with these ids were deleted."""

    type: ClassVar[str] = TOPIC_DELETED

    _: KW_ONLY
    topic_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlterOffsetsRequest(_Row):
    """Request to set start offsets. `topics` is the requester's metadata of the topics in `offsets`."""

    type: ClassVar[str] = ALTER_OFFSETS

    _: KW_ONLY
    offsets: tuple[StartOffset, ...]
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteOffsetsRequest(_Row):
    """Request to delete the start offsets and record states of the group in these topics."""

    type: ClassVar[str] = DELETE_OFFSETS

    _: KW_ONLY
    topic_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroupRequest(_Row):
    """Request to delete the group. Its configs are kept."""

    type: ClassVar[str] = DELETE_GROUP


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest(_Row):
    """Request to set configs of the group. Configs whose value is None are removed.

    With `validate_only`, the configs are checked but not changed.
    """

    type: ClassVar[str] = ALTER_CONFIGS

    _: KW_ONLY
    configs: Mapping[str, str | None]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class InvokeConsumerRebalanceRequest(_Row):
    """Request to rebalance a group (KIP-345).

    The coordinator removes the static members that have left for a restart, or have sent no heartbeat for
    `share.session.timeout.ms`, and runs the assignor immediately.
    """

    type: ClassVar[str] = INVOKE_CONSUMER_REBALANCE


@dataclass(frozen=True, slots=True)
class RemoveMembersRequest(_Row):
    """Request to remove `members` from the group."""

    type: ClassVar[str] = REMOVE_MEMBERS

    _: KW_ONLY
    members: tuple[MemberIdentity, ...]


AdministratorRequest = (
    AlterOffsetsRequest
    | DeleteOffsetsRequest
    | DeleteGroupRequest
    | AlterConfigsRequest
    | InvokeConsumerRebalanceRequest
    | RemoveMembersRequest
)
ShareGroupRequest = HeartbeatRequest | InitializedNotice | DeletedNotice | TopicDeletedNotice | AdministratorRequest


def decode_share_group_request(value: str) -> ShareGroupRequest:
    """Decode a row of `__share_group_requests`.

    This function checks only the format. The group coordinator checks the values (for example, that the member id is
    not empty), and responds with Kafka's error messages. Raises InvalidFieldError (INVALID_REQUEST) for an invalid row,
    or InvalidRequestRow if no response to the row is possible.
    """
    row = check_header(json_object(value), SHARE_GROUP_REQUESTS)
    kind = _KINDS[row["type"]]
    header = row["id"], text(row, "group_id", may_be_empty=True), row["reply_to"]
    request: ShareGroupRequest = kind(*header, **{name: read(row, name) for name, read in _READERS[kind].items()})
    return request


def _text_or_empty(row: Mapping[str, Any], field: str) -> str:
    return text(row, field, may_be_empty=True, default="")


def _text_or_none(row: Mapping[str, Any], field: str) -> str | None:
    """Return a text field, which may be empty. Return None if the field is null or missing."""
    return None if row.get(field) is None else text(row, field, may_be_empty=True)


def _member_epoch(row: Mapping[str, Any], field: str) -> int:
    return integer(row, field, -MAX_INT32, MAX_INT32, default=-1)


#: {class of a row: {field: function that checks the field and returns its value}}
_READERS: dict[type[Any], dict[str, Callable[[Mapping[str, Any], str], Any]]] = {
    HeartbeatRequest: {
        "member_id": _text_or_empty,
        "member_epoch": _member_epoch,
        "rack_id": _text_or_none,
        "client_id": _text_or_empty,
        "client_host": _text_or_empty,
        "subscribed_topic_names": share_group_fields.subscribed_topic_names,
        "topics": share_group_fields.topic_metadata,
        "group_instance_id": _text_or_none,
        "incarnation_id": _text_or_none,
    },
    InitializedNotice: {"initialized": share_group_fields.share_partitions},
    DeletedNotice: {"deleted": share_group_fields.share_partitions},
    TopicDeletedNotice: {"topic_ids": share_group_fields.topic_ids},
    AlterOffsetsRequest: {"topics": share_group_fields.topic_metadata, "offsets": share_group_fields.start_offsets},
    DeleteOffsetsRequest: {"topic_names": share_group_fields.topic_names},
    DeleteGroupRequest: {},
    AlterConfigsRequest: {"validate_only": boolean, "configs": share_group_fields.configs},
    InvokeConsumerRebalanceRequest: {},
    RemoveMembersRequest: {"members": share_group_fields.members},
}
_KINDS: dict[str, type[Any]] = {kind.type: kind for kind in _READERS}
SHARE_GROUP_REQUESTS = tuple(_KINDS)
