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
    """An admin client that lists, describes and changes share groups. It is a context manager.

    Args:
        bootstrap_servers: host:port, separated by commas, of a gateway or of Kafka 4.2 or later.
        timeout_ms: how long methods retry while a coordinator moves or a broker is unavailable.
        settings: settings of kafka-python's KafkaAdminClient: client_id, security_protocol, ssl_*, sasl_*, ...

    The constructor connects. Methods raise kafka-python's KafkaError, with the server's message, if a whole request
    fails. Methods that change several groups, topics, partitions or members return one error for each of them.
    The client is thread-safe.
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
        """Return the groups whose state is in `states` and whose type is in `types`, sorted by id.

        An empty filter matches all groups. Filters ignore case.
        """
        return groups.list_groups(self._brokers, states, types)

    def describe_groups(
        self, group_ids: Collection[str], *, include_authorized_operations: bool = False, missing_ok: bool = False
    ) -> dict[str, ShareGroupDescription]:
        """Return {group: description}, in the requested order. Raises the first error if groups have errors.

        With `missing_ok`, groups that do not exist are left out, such as a group that was deleted after it was listed.
        """
        found = groups.describe_groups(self._brokers, group_ids, include_authorized_operations)
        return _all(found, missing_ok)

    def delete_groups(self, group_ids: Collection[str]) -> dict[str, KafkaError | None]:
        """Delete groups. Return {group: error}, None for deleted groups.

        Errors of single groups are not raised. As in Kafka, the groups can be of any type.
        """
        return groups.delete_groups(self._brokers, group_ids)

    # -- members

    def invoke_consumer_rebalance(self, group_id: str) -> list[MemberIdentity]:
        """Remove the static members that have left temporarily, run the assignor, and return the removed members.

        Static members that have sent no heartbeat for `share.session.timeout.ms` are also removed (KIP-345). Raises
        GroupIdNotFoundError for a missing group, and InvalidRequestError for a group without members. Only this
        project's server supports this method, because Kafka has no static members of share groups.
        """
        return groups.rebalance(self._brokers, group_id)

    def remove_members(
        self, group_id: str, members: Iterable[MemberIdentity | str]
    ) -> dict[MemberIdentity, KafkaError | None]:
        """Remove members from a group and release their records. Return {member: error}, None for removed members.

        A `str` in `members` is a member id. If the group does not exist or is one of Kafka's own share groups, the
        error of each member is UnknownMemberIdError.

        Raises ValueError if `members` is empty, or if a member has neither an id nor a group instance id.
        """
        named = [MemberIdentity(member) if isinstance(member, str) else member for member in members]
        if not named or MemberIdentity() in named:
            raise ValueError("name at least one member, each by its id or its group instance id")
        return groups.remove_members(self._brokers, group_id, named)

    # -- offsets

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Return {partition: start offset and lag}. If `partitions` is None, all partitions of the group are included.

        The result for a missing group is empty, because Kafka's response is the same as for a group without partitions.
        """
        return _all(offsets.list_offsets(self._brokers, [group_id], partitions))[group_id]

    def list_groups_offsets(self, group_ids: Collection[str]) -> dict[str, dict[TopicPartition, ShareGroupOffset]]:
        """Return {group: {partition: start offset and lag}} for several groups, with one request per coordinator."""
        return _all(offsets.list_offsets(self._brokers, group_ids, None))

    def alter_group_offsets(
        self, group_id: str, start_offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set start offsets. Return {partition: error}; the error is None if the start offset was set.

        A missing group is created. Raises NonEmptyGroupError if the group has members. In this case nothing is changed.
        """
        return offsets.alter_offsets(self._brokers, group_id, start_offsets)

    def delete_group_offsets(self, group_id: str, topics: Collection[str]) -> dict[str, KafkaError | None]:
        """Remove topics and their start offsets from the group. Return {topic: error}, None for removed topics.

        Raises NonEmptyGroupError if the group has members, and GroupIdNotFoundError if it does not exist. In both cases
        nothing is changed.
        """
        return offsets.delete_offsets(self._brokers, group_id, topics)

    # -- configs

    def describe_group_configs(self, group_ids: Collection[str]) -> dict[str, dict[str, ConfigEntry]]:
        """Return {group: {config name: entry}} with all effective configs. The groups need not exist."""
        return configs.describe_configs(self._brokers, group_ids)

    def alter_group_configs(
        self,
        group_id: str,
        values: Mapping[str, str] | None = None,
        *,
        removed: Collection[str] = (),
        validate_only: bool = False,
    ) -> None:
        """Set the configs in `values` and remove those in `removed`, in one step.

        With `validate_only` the changes are validated and not applied. Raises InvalidConfigurationError if a change is
        invalid. In this case no config is changed.
        """
        configs.alter_configs(self._brokers, group_id, values or {}, removed, validate_only)

    def list_groups_with_configs(self) -> list[str]:
        """Return the ids of groups for which configs are set. Configs can be set for groups that do not exist."""
        return configs.groups_with_configs(self._brokers)

    # -- the logs

    def leaders(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return {partition: broker id of its leader} for all partitions of the topics.

        The id is -1 if a partition has no leader. Raises UnknownTopicOrPartitionError if a topic does not exist.
        """
        return logs.leaders(self._brokers, topics)

    def log_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogOffsets]:
        """Return the start and end offsets of logs. Raises UnknownTopicOrPartitionError if a partition is missing."""
        return logs.log_offsets(self._brokers, partitions)

    def offsets_at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        """Return the offset of each partition's first record at or after a time, None if there is no such record.

        `timestamp_ms` is in ms since the epoch.
        """
        found = logs.offsets_at(self._brokers, dict.fromkeys(partitions, timestamp_ms))
        return {key: offset if offset >= 0 else None for key, offset in found.items()}

    def oldest_unfinished(
        self, group_offsets: Mapping[TopicPartition, ShareGroupOffset]
    ) -> dict[TopicPartition, OldestRecord]:
        """Return the oldest unfinished record of each partition whose lag is unknown or above 0.

        The record at the partition's start offset is read from the log. This project's server keeps the start offset at
        the first unfinished record, so the result is exact. In Kafka, the record at the start offset may be finished.
        The result is then a lower bound: all older records are finished. Partitions without a leader, and partitions
        without a record at or above the start offset, are left out.
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
