"""What the source of the share_partition query reads of the tables: the seam between its decisions and the storage."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.storage.following.share_partition_row import SharePartitionChanges, SharePartitionRow
from sharegroup.storage.reading.fences import Fence
from sharegroup.types import SharePartitionKey


class SourceTables(Protocol):
    """The Delta tables: see `PinnedTables`."""

    def newest_version(self, table: str) -> int:
        """The table's version now."""

    def share_partitions(self, version: int) -> Collection[SharePartitionRow]:
        """The share-partitions, at a version."""

    def changes(self, before: int, after: int) -> SharePartitionChanges:
        """How the share-partitions of one version (-1: none at all) become those of another."""

    def states(self, version: int, keys: Collection[SharePartitionKey]) -> Mapping[SharePartitionKey, ShareGroupOffset]:
        """The folded states of those of these share-partitions that have one, at a version."""

    def fences(self, group_ids: Collection[str]) -> Mapping[str, list[Fence]]:
        """By group, those of its members of now whose process has taken the place of another one."""


class Configs(Protocol):
    """The groups' configs: see `ConfigPoll`."""

    def in_force(self, now_ms: int, fresh: bool = False) -> Mapping[str, Mapping[str, Any]]:
        """Each configured group's values, and "" for every other group's; `fresh`: as they are at this very moment."""
