"""What the source of the share_partition query reads from the Delta tables, at pinned versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from deltalake import DeltaTable

from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.tables.schemas import SHARE_GROUP_STATE, SHARE_PARTITIONS
from sharegroup.tables.share_partition_row import SharePartitionRow
from sharegroup.tables.state_table import read_states
from sharegroup.types import SharePartitionKey


class PinnedTables:
    """The tables at pinned versions; the newest version asked for is kept, as two neighbouring offsets share it."""

    def __init__(self, paths: Mapping[str, str], options: Mapping[str, str]) -> None:
        self._paths = paths
        self._options = dict(options) or None
        self._rows: dict[int, tuple[SharePartitionRow, ...]] = {}
        self._newest: dict[str, DeltaTable] = {}
        self._states: tuple[int, frozenset[SharePartitionKey], Mapping[SharePartitionKey, ShareGroupOffset]] | None = (
            None
        )

    def newest_version(self, table: str) -> int:
        """The table's version now."""
        handle = self._newest.get(table)
        if handle is None:
            handle = self._newest[table] = self._open(table, None)
        else:
            handle.update_incremental()
        return handle.version()

    def share_partitions(self, version: int) -> tuple[SharePartitionRow, ...]:
        """The share-partitions, at a version."""
        if version not in self._rows:
            listed = self._open(SHARE_PARTITIONS.name, version).to_pyarrow_table().to_pylist()
            self._rows = {kept: rows for kept, rows in self._rows.items() if kept == max(self._rows)}
            self._rows[version] = tuple(
                SharePartitionRow(
                    SharePartitionKey(row["group_id"], row["topic"], row["topic_id"], row["partition"]),
                    row["status"] == "initializing",
                    row["state_epoch"],
                    row["start_offset"],
                    row["status"] == "deleting",
                    row.get("auto_offset_reset"),
                )
                for row in listed
            )
        return self._rows[version]

    def states(self, version: int, keys: Collection[SharePartitionKey]) -> Mapping[SharePartitionKey, ShareGroupOffset]:
        """The folded states of some share-partitions, at a version.

        A batch is planned with them before its rows are made of them: what was read last is kept until it was read
        again.
        """
        if self._states is not None and self._states[0] == version and self._states[1].issuperset(keys):
            states, self._states = self._states[2], None
            return {key: states[key] for key in keys if key in states}
        found = read_states(self._open(SHARE_GROUP_STATE.name, version), keys)
        self._states = version, frozenset(keys), found
        return found

    def _open(self, table: str, version: int | None) -> DeltaTable:
        return DeltaTable(self._paths[table], version=version, storage_options=self._options)
