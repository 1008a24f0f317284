"""Reads the tables of the group_coordinator query at pinned (given) versions."""

from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable

from sharegroup.storage.schemas import CHUNK


class PinnedGroups:
    """Reads the tables of the group_coordinator query at versions that the caller chooses.

    `paths` maps each table's name to its path. `options` are the storage options.
    """

    def __init__(self, paths: Mapping[str, str], options: Mapping[str, str]) -> None:
        self._paths = paths
        self._options = dict(options) or None

    def newest_versions(self) -> dict[str, int]:
        return {table: self._open(table, None).version() for table in self._paths}

    def groups(self, versions: Mapping[str, int]) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Return {group id: {table: [row, ...]}} as of `versions`, which are {table: version}."""
        groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for table, version in versions.items():
            for row in self._open(table, version).to_pyarrow_table().to_pylist():
                row.pop("time", None)
                row.pop(CHUNK, None)
                groups.setdefault(row["group_id"], {}).setdefault(table, []).append(row)
        return groups

    def _open(self, table: str, version: int | None) -> DeltaTable:
        return DeltaTable(self._paths[table], version=version, storage_options=self._options)
