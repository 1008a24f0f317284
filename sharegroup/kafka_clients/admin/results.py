"""Results of the admin client: plain values with the fields of the responses."""

from enum import IntEnum
from typing import NamedTuple

from kafka import TopicPartition


class GroupListing(NamedTuple):
    """A group in a ListGroups response. `group_type` is share, consumer, classic or streams."""

    group_id: str
    group_state: str
    group_type: str
    protocol_type: str


class Coordinator(NamedTuple):
    """The id and address of the broker that coordinates a group. A gateway returns the address of its own port."""

    node_id: int
    host: str
    port: int


class MemberDescription(NamedTuple):
    """A member of a share group; its assignment is sorted by topic and partition."""

    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    rack_id: str | None
    subscribed_topic_names: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


class ShareGroupDescription(NamedTuple):
    """A share group with its members, sorted by id (ShareGroupDescribe). `group_state` is Empty, Stable or Dead.

    `authorized_operations` are codes of org.apache.kafka.common.acl.AclOperation; None if they were not requested.
    """

    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    coordinator: Coordinator
    members: tuple[MemberDescription, ...]
    authorized_operations: frozenset[int] | None


class ShareGroupOffset(NamedTuple):
    """The offsets of a share-partition (DescribeShareGroupOffsets). Unknown values are None.

    `lag` is the number of unfinished records from `start_offset` on (KIP-1226). It is unknown if the share-partition
    was never read, or if the broker is older than Kafka 4.2.
    """

    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


class LogOffsets(NamedTuple):
    """The start and end offsets of a partition's log. `end` is the offset of the next record to be appended."""

    start: int
    end: int


class OldestRecord(NamedTuple):
    """The first record at or above a share-partition's start offset, with its timestamp in ms since the epoch."""

    offset: int
    timestamp_ms: int


class ConfigSource(IntEnum):
    """The source of a config's value (org.apache.kafka.clients.admin.ConfigEntry.ConfigSource, by code)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigEntry(NamedTuple):
    """A config and its effective value. `synonyms` are all values that are set for it, in order of precedence.

    Each synonym is (source, config name, value).
    """

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    synonyms: tuple[tuple[ConfigSource, str, str | None], ...]

    @property
    def is_of_group(self) -> bool:
        """Whether the value is set for the group itself, and is not a default or a broker's config."""
        return self.source is ConfigSource.DYNAMIC_GROUP_CONFIG
