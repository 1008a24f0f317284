"""Groups, as ListGroups and ShareGroupDescribe report them (KIP-932)."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sharegroup.storage.rows import DeltaTables, StorageOptions
from sharegroup.storage.schemas import SHARE_GROUP_MEMBERS, SHARE_GROUPS, SHARE_PARTITIONS

_EMPTY, _STABLE, _DEAD = "Empty", "Stable", "Dead"
_DELETING = "deleting"


class GroupListing(NamedTuple):
    """A group and its state: Empty or Stable."""

    group_id: str
    group_state: str


class MemberDescription(NamedTuple):
    """A member; `assignment` is {topic: (topic id, partitions)}.

    `group_instance_id` is the name of a static member; None for other members. `incarnation_id` identifies the process
    that joined last as this member; it is "" while the member restarts, and None if it is not known.
    """

    member_id: str
    member_epoch: int
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: Mapping[str, tuple[str, tuple[int, ...]]]
    group_instance_id: str | None = None
    incarnation_id: str | None = None


class SharePartitionDescription(NamedTuple):
    """A share-partition of a group.

    `status` is initializing or initialized. `start_offset` is -1 if `share.auto.offset.reset` decides it.
    """

    topic: str
    topic_id: str
    partition: int
    status: str
    state_epoch: int
    start_offset: int


class ShareGroupDescription(NamedTuple):
    """A group with its members, sorted by id, and its share-partitions, sorted by topic and partition."""

    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    members: tuple[MemberDescription, ...]
    share_partitions: tuple[SharePartitionDescription, ...]

    @property
    def topic_ids(self) -> dict[str, str]:
        return {row.topic: row.topic_id for row in self.share_partitions}


def read_groups(tables: str | DeltaTables, storage_options: StorageOptions = None) -> tuple[GroupListing, ...]:
    """Return all groups, ordered by id, except those that are being deleted. Raises TableUnavailableError."""
    rows = DeltaTables.from_path(tables, storage_options).rows(SHARE_GROUPS)
    return tuple(GroupListing(row["group_id"], row["group_state"]) for row in rows if row["group_state"] != _DEAD)


def read_group(
    tables: str | DeltaTables, group_id: str, storage_options: StorageOptions = None
) -> ShareGroupDescription | None:
    """Return a group; None if it does not exist or is being deleted. Raises TableUnavailableError."""
    return read_group_descriptions(tables, [group_id], storage_options).get(group_id)


def read_group_descriptions(
    tables: str | DeltaTables, group_ids: Collection[str], storage_options: StorageOptions = None
) -> dict[str, ShareGroupDescription]:
    """Return {group id: description}. Groups that do not exist or are being deleted are left out.

    Each table is read once. The job commits the table of groups before the table of members. The members are therefore
    read first, so that no member is newer than its group. The state of each group is derived from the returned members.
    Raises TableUnavailableError.
    """
    if not group_ids:
        return {}
    opened = DeltaTables.from_path(tables, storage_options)
    members = _by_group(opened.rows(SHARE_GROUP_MEMBERS, group_ids))
    rows = opened.rows(SHARE_GROUPS, group_ids)
    groups = {row["group_id"]: row for row in rows if row["group_state"] != _DEAD}
    partitions = read_share_partitions(opened, group_ids)
    return {
        group_id: _description(group, members.get(group_id, ()), partitions.get(group_id, ()))
        for group_id, group in groups.items()
    }


def read_share_partitions(
    tables: str | DeltaTables, group_ids: Collection[str], storage_options: StorageOptions = None
) -> dict[str, tuple[SharePartitionDescription, ...]]:
    """Return {group id: share-partitions, ordered by topic and partition}.

    Share-partitions that are being deleted are left out. Raises TableUnavailableError.
    """
    rows = DeltaTables.from_path(tables, storage_options).rows(SHARE_PARTITIONS, group_ids)
    rows.sort(key=lambda row: (row["topic"], row["partition"]))
    return {
        group_id: tuple(SharePartitionDescription(*(row[f] for f in SharePartitionDescription._fields)) for row in kept)
        for group_id, kept in _by_group(row for row in rows if row["status"] != _DELETING).items()
    }


def _by_group(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["group_id"], []).append(row)
    return groups


def _description(
    group: Mapping[str, Any],
    members: Collection[Mapping[str, Any]],
    partitions: tuple[SharePartitionDescription, ...],
) -> ShareGroupDescription:
    return ShareGroupDescription(
        group["group_id"],
        _STABLE if members else _EMPTY,
        group["group_epoch"],
        group["assignment_epoch"],
        tuple(map(_member, members)),
        partitions,
    )


def _member(row: Mapping[str, Any]) -> MemberDescription:
    assignment = {item["topic"]: (item["topic_id"], tuple(item["partitions"])) for item in row["assignment"]}
    return MemberDescription(
        row["member_id"],
        row["member_epoch"],
        row["rack_id"],
        row["client_id"],
        row["client_host"],
        tuple(row["subscribed_topic_names"]),
        assignment,
        row["group_instance_id"],
        row["incarnation_id"],
    )
