"""The interface through which planning reads the Delta tables (source of the share_partition query)."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.storage.following.share_partition_row import SharePartitionChanges, SharePartitionRow
from sharegroup.storage.reading.fences import Fence
from sharegroup.types import SharePartitionKey


class SourceTables(Protocol):
    """Reads the Delta tables at given versions; implemented by `PinnedTables`."""

    def newest_version(self, table: str) -> int:
        """Return the table's newest version."""

    def share_partitions(self, version: int) -> Collection[SharePartitionRow]:
        """Return the rows of `share_partitions` at a version."""

    def changes(self, before: int, after: int) -> SharePartitionChanges:
        """Return the changes between two versions of `share_partitions`. If `before` is -1, all rows are new."""

    def states(self, version: int, keys: Collection[SharePartitionKey]) -> Mapping[SharePartitionKey, ShareGroupOffset]:
        """Return the states of `keys` at a version of `share_group_state`. Keys without a state are left out."""

    def fences(self, group_ids: Collection[str]) -> Mapping[str, list[Fence]]:
        """Return {group id: fences}, with a fence for each member whose current process has replaced an earlier one."""


class GroupConfigSource(Protocol):
    """Reads the groups' effective configs; implemented by `ConfigPoll`."""

    def in_force(self, now_ms: int, fresh: bool = False) -> Mapping[str, Mapping[str, Any]]:
        """Return {group id: {config name: effective value}}; the key "" has the values of all other groups.

        With `fresh`, the values are those of the newest version of `share_group_configs`. Otherwise they may be up to
        half a second old.
        """
