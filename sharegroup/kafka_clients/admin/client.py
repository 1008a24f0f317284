"""The admin client of share groups."""

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

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

T = TypeVar("T")

SHARE = "share"
DEFAULT_TIMEOUT_MS = 30_000


class ShareGroupAdmin:
    """An admin client that lists, describes and changes share groups. It is a context manager, and connects at once.

    Args:
        bootstrap_servers: host:port, separated by commas, of a gateway or of Kafka 4.2 or later.
        timeout_ms: how long methods retry while a coordinator moves or a broker is unavailable.
        settings: settings of kafka-python's KafkaAdminClient: client_id, security_protocol, ssl_*, sasl_*, ...

    Methods raise kafka-python's KafkaError, with the server's message, if a whole request fails. Requests about several
    groups, topics or partitions return the errors of single ones. The client is thread-safe.
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
        """Return groups by id, by default share groups; `types=()` returns all types. Case does not matter."""
        return groups.list_groups(self._brokers, states, types)

    def describe_groups(
        self, group_ids: Collection[str], *, include_authorized_operations: bool = False, missing_ok: bool = False
    ) -> dict[str, ShareGroupDescription]:
        """Return {group: description}, in the requested order. Raises the first group's error.

        `missing_ok` leaves out missing groups, because a group may be deleted after it was listed.
        """
        found = groups.describe_groups(self._brokers, group_ids, include_authorized_operations)
        return _all(found, missing_ok)

    def delete_groups(self, group_ids: Collection[str]) -> dict[str, KafkaError | None]:
        """Delete groups. Return {group: error}, None for deleted groups.

        Errors of single groups are not raised. As in Kafka, groups of other types are deleted too.
        """
        return groups.delete_groups(self._brokers, group_ids)

    # -- members

    def invoke_consumer_rebalance(self, group_id: str) -> list[MemberIdentity]:
        """Let absent static members leave now, and run the assignor (KIP-345). Return the members that left.

        Raises GroupIdNotFoundError, and InvalidRequestError for a group without members. Only this project's server
        supports it: Kafka has no request for it, and no static members of share groups.
        """
        return groups.rebalance(self._brokers, group_id)

    def remove_members(
        self, group_id: str, members: Iterable[MemberIdentity | str]
    ) -> dict[MemberIdentity, KafkaError | None]:
        """Remove members, whose records are released. Return {member: error}, None for removed members.

        A str is a member id. The members of a missing group get UnknownMemberIdError, and so do those of Kafka's own
        share groups. Raises ValueError for a member without an id or a name, or without members.
        """
        named = [MemberIdentity(member) if isinstance(member, str) else member for member in members]
        if not named or MemberIdentity() in named:
            raise ValueError("name at least one member, each by its id or its group instance id")
        return groups.remove_members(self._brokers, group_id, named)

    # -- offsets

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Return start offsets and lags, of all partitions of the group or of those in `partitions`.

        A missing group has none: Kafka's response is the same as for a group without partitions.
        """
        return _all(offsets.list_offsets(self._brokers, [group_id], partitions))[group_id]

    def list_groups_offsets(self, group_ids: Collection[str]) -> dict[str, dict[TopicPartition, ShareGroupOffset]]:
        """Return the same for several groups, with one request to each coordinator."""
        return _all(offsets.list_offsets(self._brokers, group_ids, None))

    def alter_group_offsets(
        self, group_id: str, start_offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set start offsets. Return {partition: error}, None if it was set. A missing group is created.

        Raises NonEmptyGroupError if the group has members; then nothing is changed.
        """
        return offsets.alter_offsets(self._brokers, group_id, start_offsets)

    def delete_group_offsets(self, group_id: str, topics: Collection[str]) -> dict[str, KafkaError | None]:
        """Remove topics from the group. Return {topic: error}, None for removed topics.

        Raises NonEmptyGroupError if the group has members, and GroupIdNotFoundError; then nothing is changed.
        """
        return offsets.delete_offsets(self._brokers, group_id, topics)

    # -- configs

    def describe_group_configs(self, group_ids: Collection[str]) -> dict[str, dict[str, ConfigEntry]]:
        """Return {group: {config: entry}} with all effective configs. A group need not exist to have configs."""
        return configs.describe_configs(self._brokers, group_ids)

    def alter_group_configs(
        self,
        group_id: str,
        values: Mapping[str, str] | None = None,
        *,
        removed: Collection[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set and remove configs of a group in one step. Raises InvalidConfigurationError; then none is changed."""
        configs.alter_configs(self._brokers, group_id, values or {}, removed, validate_only)

    def list_groups_with_configs(self) -> list[str]:
        """Return the ids of groups that have their own configs. Such groups need not exist."""
        return configs.groups_with_configs(self._brokers)

    # -- the logs

    def leaders(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return {partition: id of its leader}, -1 without a leader. Raises UnknownTopicOrPartitionError."""
        return logs.leaders(self._brokers, topics)

    def log_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogOffsets]:
        """Return the start and end offsets of logs. Raises UnknownTopicOrPartitionError."""
        return logs.log_offsets(self._brokers, partitions)

    def offsets_at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after a time (ms since the epoch); None if there is no such record."""
        found = logs.offsets_at(self._brokers, dict.fromkeys(partitions, timestamp_ms))
        return {key: offset if offset >= 0 else None for key, offset in found.items()}

    def oldest_unfinished(
        self, group_offsets: Mapping[TopicPartition, ShareGroupOffset]
    ) -> dict[TopicPartition, OldestRecord]:
        """Return the oldest record of each partition that the group has not finished, if the lag is not 0.

        It is the record at the start offset, read from the log. This project's server keeps the start offset at the
        first unfinished record, so the result is exact. In Kafka the start offset may be behind finished records, so
        the result is the oldest record that may be unfinished. Partitions with an unknown lag are included.
        """
        starts = {
            key: found.start_offset
            for key, found in group_offsets.items()
            if found.start_offset is not None and found.lag != 0
        }
        return logs.oldest_records(self._brokers, starts)


def _all(found: Mapping[str, T | KafkaError], missing_ok: bool = False) -> dict[str, T]:
    results: dict[str, T] = {}
    for group_id, result in found.items():
        if not isinstance(result, KafkaError):
            results[group_id] = result
        elif not (missing_ok and isinstance(result, GroupIdNotFoundError)):
            raise result
    return results
