"""Groups, as ListGroups and ShareGroupDescribe tell of them (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sharegroup.tables.rows import StorageOptions, read_rows
from sharegroup.tables.schemas import SHARE_GROUP_MEMBERS, SHARE_GROUPS, SHARE_PARTITIONS

_DEAD = "Dead"
_DELETING = "deleting"


class GroupListing(NamedTuple):
    """A group and its state: Empty or Stable."""

    group_id: str
    group_state: str


class MemberDescription(NamedTuple):
    """A member; `assignment` is {topic: (topic id, partitions)}."""

    member_id: str
    member_epoch: int
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: Mapping[str, tuple[str, tuple[int, ...]]]


class SharePartitionDescription(NamedTuple):
    """A share-partition: `status` is initializing or initialized, `start_offset` where to start (-1: by the config)."""

    topic: str
    topic_id: str
    partition: int
    status: str
    state_epoch: int
    start_offset: int


class ShareGroupDescription(NamedTuple):
    """A group with its members, by id, and its share-partitions, by topic and partition."""

    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    members: tuple[MemberDescription, ...]
    share_partitions: tuple[SharePartitionDescription, ...]

    @property
    def topic_ids(self) -> dict[str, str]:
        """Topic name to topic id."""
        return {row.topic: row.topic_id for row in self.share_partitions}


def read_groups(tables_path: str, storage_options: StorageOptions = None) -> tuple[GroupListing, ...]:
    """All groups by id, without those that are being deleted. Raises TableUnavailableError."""
    rows = read_rows(tables_path, SHARE_GROUPS, storage_options=storage_options)
    return tuple(GroupListing(row["group_id"], row["group_state"]) for row in rows if row["group_state"] != _DEAD)


def read_group(tables_path: str, group_id: str, storage_options: StorageOptions = None) -> ShareGroupDescription | None:
    """A group, None if there is none or it is being deleted. Raises TableUnavailableError."""
    groups = read_rows(tables_path, SHARE_GROUPS, group_id, storage_options)
    if not groups or groups[0]["group_state"] == _DEAD:
        return None
    members = read_rows(tables_path, SHARE_GROUP_MEMBERS, group_id, storage_options)
    partitions = read_share_partitions(tables_path, group_id, storage_options)
    topic_ids = {row.topic: row.topic_id for row in partitions}
    return ShareGroupDescription(
        group_id,
        groups[0]["group_state"],
        groups[0]["group_epoch"],
        groups[0]["assignment_epoch"],
        tuple(_member(row, topic_ids) for row in members),
        partitions,
    )


def read_share_partitions(
    tables_path: str, group_id: str, storage_options: StorageOptions = None
) -> tuple[SharePartitionDescription, ...]:
    """A group's share-partitions, without those that are being deleted. Raises TableUnavailableError."""
    rows = read_rows(tables_path, SHARE_PARTITIONS, group_id, storage_options)
    return tuple(
        SharePartitionDescription(*(row[field] for field in SharePartitionDescription._fields))
        for row in rows
        if row["status"] != _DELETING
    )


def _member(row: Mapping[str, Any], topic_ids: Mapping[str, str]) -> MemberDescription:
    assignment = {
        item["topic"]: (topic_ids.get(item["topic"], ""), tuple(item["partitions"])) for item in row["assignment"]
    }
    return MemberDescription(
        row["member_id"],
        row["member_epoch"],
        row["rack_id"],
        row["client_id"],
        row["client_host"],
        tuple(row["subscribed_topic_names"]),
        assignment,
    )
