"""The admin client of share groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from kafka import TopicPartition
from kafka.errors import GroupIdNotFoundError, KafkaError

from sharegroup.kafka_clients.admin import configs, groups, logs, offsets
from sharegroup.kafka_clients.admin.brokers import Brokers
from sharegroup.kafka_clients.admin.results import (
    ConfigEntry,
    GroupListing,
    LogOffsets,
    OldestRecord,
    ShareGroupDescription,
    ShareGroupOffset,
)
from sharegroup.protocol.rows.share_group_fields import MemberIdentity

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")

SHARE = "share"
DEFAULT_TIMEOUT_MS = 30_000


class ShareGroupAdmin:
    """Lists, describes and changes share groups; a context manager. Connects when it is made.

    Args:
        bootstrap_servers: host:port, several with commas between them; a gateway's, or Kafka's own from 4.2 on.
        timeout_ms: how long a method goes on trying while a coordinator moves, or a broker cannot be reached.
        settings: kafka-python's for its KafkaAdminClient: client_id, security_protocol, ssl_*, sasl_*, ...

    Methods raise kafka-python's KafkaError for what refuses a whole request, with the server's words as its text. Where
    a request is about several groups, topics or partitions, which succeed or fail each by itself, errors are returned.
    One object may be used by several threads.
    """

    def __init__(
        self, bootstrap_servers: str | list[str], *, timeout_ms: int = DEFAULT_TIMEOUT_MS, **settings: Any
    ) -> None:
        self._brokers = Brokers({"bootstrap_servers": bootstrap_servers, **settings}, timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._brokers.close()

    # -- groups

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = (SHARE,)) -> list[GroupListing]:
        """Groups by id: share groups, unless other `types` are asked for; () asks for all. Case does not matter."""
        return groups.list_groups(self._brokers, states, types)

    def describe_groups(
        self, group_ids: Collection[str], *, include_authorized_operations: bool = False, missing_ok: bool = False
    ) -> dict[str, ShareGroupDescription]:
        """{group: description}, in the order asked. Raises the first group's error.

        `missing_ok` leaves groups out that are not there: one that was just listed may have been deleted since.
        """
        found = groups.describe_groups(self._brokers, group_ids, include_authorized_operations)
        return _all(found, missing_ok)

    def delete_groups(self, group_ids: Collection[str]) -> dict[str, KafkaError | None]:
        """{group: why it was not deleted}, None for one that was.

        Raises nothing for a single group. As in Kafka, groups of other types are deleted too when their ids are given.
        """
        return groups.delete_groups(self._brokers, group_ids)

    # -- members

    def invoke_consumer_rebalance(self, group_id: str) -> list[MemberIdentity]:
        """Have static members that are away leave now, and the assignor run (KIP-345); those that have left.

        Raises GroupIdNotFoundError, InvalidRequestError for a group without members. Only this project's server does
        it: Kafka has no request for it, and no static members of share groups.
        """
        return groups.rebalance(self._brokers, group_id)

    def remove_members(
        self, group_id: str, members: Iterable[MemberIdentity | str]
    ) -> dict[MemberIdentity, KafkaError | None]:
        """Have members leave now, whose records are released: {member: why it was not removed}, None where it was.

        A text is a member id. Each member of a group that is not there is an UnknownMemberIdError, and so is each one
        of Kafka's own share groups. Raises ValueError for a member without an id or a name, or without any member.
        """
        named = [MemberIdentity(member) if isinstance(member, str) else member for member in members]
        if not named or MemberIdentity() in named:
            raise ValueError("each member needs an id or a group instance id, and one must be named")
        return groups.remove_members(self._brokers, group_id, named)

    # -- offsets

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Start offsets and lags by partition, of all that the group has unless `partitions` are named.

        A group that is not there has none: Kafka does not tell the two apart here.
        """
        return _all(offsets.list_offsets(self._brokers, [group_id], partitions))[group_id]

    def list_groups_offsets(self, group_ids: Collection[str]) -> dict[str, dict[TopicPartition, ShareGroupOffset]]:
        """The same for several groups, by one request to each coordinator."""
        return _all(offsets.list_offsets(self._brokers, group_ids, None))

    def alter_group_offsets(
        self, group_id: str, start_offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set start offsets: {partition: why it was not set}, None where it was. An unknown group is made.

        Raises NonEmptyGroupError while the group has members; then nothing is changed.
        """
        return offsets.alter_offsets(self._brokers, group_id, start_offsets)

    def delete_group_offsets(self, group_id: str, topics: Collection[str]) -> dict[str, KafkaError | None]:
        """Have the group forget topics: {topic: why it was not forgotten}, None where it was.

        Raises NonEmptyGroupError while the group has members, GroupIdNotFoundError; then nothing is changed.
        """
        return offsets.delete_offsets(self._brokers, group_id, topics)

    # -- configs

    def describe_group_configs(self, group_ids: Collection[str]) -> dict[str, dict[str, ConfigEntry]]:
        """{group: {config: entry}}: all that are in force, whoever set them. A group need not exist to have configs."""
        return configs.describe_configs(self._brokers, group_ids)

    def alter_group_configs(
        self,
        group_id: str,
        values: Mapping[str, str] | None = None,
        *,
        removed: Collection[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set some configs of a group and remove others, all at once. Raises InvalidConfigurationError; then none."""
        configs.alter_configs(self._brokers, group_id, values or {}, removed, validate_only)

    def list_groups_with_configs(self) -> list[str]:
        """The groups that have configs of their own, by id; they need not exist otherwise."""
        return configs.groups_with_configs(self._brokers)

    # -- the logs

    def leaders(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """{partition: id of its leader}, -1 without one. Raises UnknownTopicOrPartitionError."""
        return logs.leaders(self._brokers, topics)

    def log_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogOffsets]:
        """Where logs start and end. Raises UnknownTopicOrPartitionError."""
        return logs.log_offsets(self._brokers, partitions)

    def offsets_at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        """The first offset whose record is not before a time (ms since 1970); None where all records are before it."""
        found = logs.offsets_at(self._brokers, dict.fromkeys(partitions, timestamp_ms))
        return {key: offset if offset >= 0 else None for key, offset in found.items()}

    def oldest_unfinished(
        self, group_offsets: Mapping[TopicPartition, ShareGroupOffset]
    ) -> dict[TopicPartition, OldestRecord]:
        """The oldest record of each partition that the group has not finished, without partitions whose lag is 0.

        It is the record at the start offset, read from the log. This project's server keeps the start offset on the
        first record that is not finished, so there it is exact. In Kafka the start offset may stay behind finished
        records: there it is the oldest that may be unfinished. An unknown lag counts as one.
        """
        starts = {
            key: found.start_offset
            for key, found in group_offsets.items()
            if found.start_offset is not None and found.lag != 0
        }
        return logs.oldest_records(self._brokers, starts)


def _all(found: Mapping[str, T | KafkaError], missing_ok: bool = False) -> dict[str, T]:
    answers: dict[str, T] = {}
    for group_id, answer in found.items():
        if not isinstance(answer, KafkaError):
            answers[group_id] = answer
        elif not (missing_ok and isinstance(answer, GroupIdNotFoundError)):
            raise answer
    return answers
