"""Rows of a table of current state, read again by what changed: only files that a version adds are read.

A commit puts new files in place of those that it touches, and says so in the table's log. So two versions differ by
the rows of the files that only one of them has, and reading the second one costs these, however large the table is.

    rows = RowsByFile(SHARE_PARTITIONS)
    rows.go_to(DeltaFiles(table, SHARE_PARTITIONS))  # reads all
    table.update_incremental()
    change = rows.go_to(DeltaFiles(table, SHARE_PARTITIONS))  # reads the files that were added
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from sharegroup.storage.schemas import TableSpec

Key = tuple[Any, ...]
Row = dict[str, Any]


class TableFiles(Protocol):
    """The data files of a table at one version. A path is that of one content for ever."""

    def paths(self) -> Collection[str]:
        """All files."""

    def rows(self, path: str) -> list[Row]:
        """The rows of one file. Partition columns, which are in its path, may be missing."""


class Change(NamedTuple):
    """What a version has otherwise than the one before: rows that are new or different, and rows that are gone."""

    changed: Mapping[Key, Row]
    removed: Mapping[Key, Row]

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


class RowsByFile:
    """All rows of the version that was gone to last, by the table's key; none before the first."""

    def __init__(self, spec: TableSpec) -> None:
        self._key = spec.key
        self._files: dict[str, dict[Key, Row]] = {}
        self._rows: dict[Key, Row] = {}

    @property
    def rows(self) -> Mapping[Key, Row]:
        """They are the table's own; not to be changed."""
        return self._rows

    def go_to(self, files: TableFiles) -> Change:
        """Go to a version, newer or older, and tell the difference. Where a file cannot be read, nothing is done."""
        paths = set(files.paths())
        added = {path: self._by_key(files.rows(path)) for path in sorted(paths - self._files.keys())}
        gone = [self._files[path] for path in self._files.keys() - paths]
        before = {key: row for rows in gone for key, row in rows.items()}
        after = {key: row for rows in added.values() for key, row in rows.items()}
        change = Change(
            {key: row for key, row in after.items() if self._rows.get(key) != row},
            {key: row for key, row in before.items() if key not in after},
        )
        self._files = {path: rows for path, rows in self._files.items() if path in paths} | added
        for key in change.removed:
            del self._rows[key]
        self._rows |= change.changed
        return change

    def _by_key(self, rows: list[Row]) -> dict[Key, Row]:
        return {tuple(row[column] for column in self._key): row for row in rows}


class DeltaFiles:
    """The files of a table at its handle's version, read from where the table is; `options` are the storage's.

    Rows have the spec's columns, or `columns`.
    """

    def __init__(
        self,
        table: DeltaTable,
        spec: TableSpec,
        options: Mapping[str, str] | None = None,
        columns: Collection[str] | None = None,
    ) -> None:
        self._table, self._options = table, dict(options or {}) or None
        in_files = [name for name in spec.schema.names if name not in spec.partition_by]
        self.schema = pa.schema([spec.schema.field(name) for name in columns or in_files])
        self._filesystem: pa_fs.FileSystem | None = None

    def paths(self) -> Collection[str]:
        found: list[str] = pa.table(self._table.get_add_actions())["path"].to_pylist()
        return found

    def rows(self, path: str) -> list[Row]:
        rows: list[Row] = self.table(path).to_pylist()
        return rows

    def table(self, path: str) -> pa.Table:
        """The rows of one file as Arrow has them."""
        if self._filesystem is None:
            self._filesystem = pa_fs.PyFileSystem(DeltaStorageHandler(self._table.table_uri, self._options))
        fragment = ds.ParquetFileFormat().make_fragment(path, self._filesystem)
        return fragment.to_table(schema=self.schema)
