"""Reads the tables that the streaming source of the share_partition query needs, at pinned (given) versions."""

from collections.abc import Collection, Mapping
from typing import Any

from deltalake import DeltaTable

from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.storage.following.rows_by_file import DeltaFiles, RowsByFile, TableFiles
from sharegroup.storage.following.share_partition_row import SharePartitionChanges, SharePartitionRow
from sharegroup.storage.reading.fences import Fence, read_fences
from sharegroup.storage.reading.state_base import StateBases
from sharegroup.storage.reading.state_table import read_states
from sharegroup.storage.schemas import (
    SHARE_GROUP_MEMBERS,
    SHARE_GROUP_STATE,
    SHARE_GROUP_STATE_BASE,
    SHARE_PARTITIONS,
)
from sharegroup.types import SharePartitionKey

#: The columns of `share_partitions` that are read. A row that changes only in other columns counts as unchanged.
_COLUMNS = (
    "group_id",
    "topic",
    "topic_id",
    "partition",
    "status",
    "state_epoch",
    "start_offset",
    "auto_offset_reset",
)  # fmt: skip


class PinnedTables:
    """Reads the tables that the share_partition query's source needs, at versions that the caller chooses.

    `paths` maps each table's name to its path. `options` are the storage options. The rows of `share_partitions` at the
    version that was read last are cached. A read of another version of this table only fetches the files that the
    cached version does not have.
    """

    def __init__(self, paths: Mapping[str, str], options: Mapping[str, str], bases: StateBases | None = None) -> None:
        self._paths = paths
        self._options = dict(options) or None
        self._newest: dict[str, DeltaTable] = {}
        self._bases = bases or StateBases(paths[SHARE_GROUP_STATE_BASE.name], options)
        self._listed, self._listed_at = RowsByFile(SHARE_PARTITIONS), -1
        self._states: tuple[int, frozenset[SharePartitionKey], Mapping[SharePartitionKey, ShareGroupOffset]] | None = (
            None
        )

    def newest_version(self, table: str) -> int:
        handle = self._newest.get(table)
        if handle is None:
            handle = self._newest[table] = self._open(table, None)
        else:
            handle.update_incremental()
        return handle.version()

    def share_partitions(self, version: int) -> list[SharePartitionRow]:
        self._go_to(version)
        return [_row(row) for row in self._listed.rows.values()]

    def changes(self, before: int, after: int) -> SharePartitionChanges:
        """Return the changes between two versions of `share_partitions`. If `before` is -1, all rows are new."""
        if before < 0:
            return SharePartitionChanges(self.share_partitions(after), ())
        self._go_to(before)
        changed, removed = self._go_to(after)
        return SharePartitionChanges(changed, [row.key for row in removed])

    def states(self, version: int, keys: Collection[SharePartitionKey]) -> Mapping[SharePartitionKey, ShareGroupOffset]:
        """Return the states of some share-partitions at a version of `share_group_state`.

        Share-partitions without a state are left out. The last result is cached for one more call, because the source
        reads the states twice: when it plans a micro-batch, and when it creates the rows of the micro-batch.
        """
        if self._states is not None and self._states[0] == version and self._states[1].issuperset(keys):
            states, self._states = self._states[2], None
            return {key: states[key] for key in keys if key in states}
        base = self._bases.at_most(version)
        read = read_states(self._open(SHARE_GROUP_STATE.name, version), {key.group_id for key in keys}, base)
        found = {key: read[key] for key in keys if key in read}
        self._states = version, frozenset(keys), found
        return found

    def fences(self, group_ids: Collection[str]) -> dict[str, list[Fence]]:
        """Return {group id: fences} from the newest version of `share_group_members`.

        A fence is a member's current process if it has replaced an earlier process of the member.
        """
        return read_fences(self._open(SHARE_GROUP_MEMBERS.name, None), group_ids)

    def _go_to(self, version: int) -> tuple[list[SharePartitionRow], list[SharePartitionRow]]:
        if version == self._listed_at:
            return [], []
        newest = self._newest.get(SHARE_PARTITIONS.name)
        is_newest = newest is not None and newest.version() == version
        change = self._listed.update(self._files(newest if is_newest else self._open(SHARE_PARTITIONS.name, version)))
        self._listed_at = version
        return [_row(row) for row in change.changed.values()], [_row(row) for row in change.removed.values()]

    def _files(self, table: Any) -> TableFiles:
        return DeltaFiles(table, SHARE_PARTITIONS, self._options, _COLUMNS)

    def _open(self, table: str, version: int | None) -> DeltaTable:
        return DeltaTable(self._paths[table], version=version, storage_options=self._options)


def _row(row: Mapping[str, Any]) -> SharePartitionRow:
    return SharePartitionRow(
        SharePartitionKey(row["group_id"], row["topic"], row["topic_id"], row["partition"]),
        row["status"] == "initializing",
        row["state_epoch"],
        row["start_offset"],
        row["status"] == "deleting",
        row["auto_offset_reset"],
    )
