"""Follows the rows of a table of current state. After the first read, only files that were added are read.

A commit replaces each file whose rows it changes by a new file. A file that belongs to two versions of the table
therefore has the same rows in both. It is read once, so the cost of a read does not depend on the size of the table.

    rows = RowsByFile(SHARE_PARTITIONS)
    rows.update(DeltaFiles(table, SHARE_PARTITIONS))  # reads all files
    table.update_incremental()
    change = rows.update(DeltaFiles(table, SHARE_PARTITIONS))  # reads the files that were added
"""

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
    """The data files of a table at one version. A file never changes after it was written."""

    def paths(self) -> Collection[str]:
        """Return the paths of all files."""

    def rows(self, path: str) -> list[Row]:
        """Return the rows of one file. Partition columns may be missing, because their values are in the path."""


class RowsChange(NamedTuple):
    """The difference between two versions of a table.

    `changed` has the rows that are new or different, with their new values. `removed` has the rows that were removed.
    """

    changed: Mapping[Key, Row]
    removed: Mapping[Key, Row]

    def __bool__(self) -> bool:
        return bool(self.changed or self.removed)


class RowsByFile:
    """The rows of a table at the table version that was read last. There are none before the first `update`.

    The rows are kept per data file, so an update reads only new files. A row's key is the tuple of its values in the
    columns of `TableSpec.key`.
    """

    def __init__(self, spec: TableSpec) -> None:
        self._key = spec.key
        self._files: dict[str, dict[Key, Row]] = {}
        self._rows: dict[Key, Row] = {}

    @property
    def rows(self) -> Mapping[Key, Row]:
        """The rows as {key: row}. Callers must not change this dict or its rows."""
        return self._rows

    def update(self, files: TableFiles) -> RowsChange:
        """Replace the rows by those of another version of the table, and return the difference.

        `files` are the files of that version, which may be newer or older. If a file cannot be read, the error is
        raised and nothing changes.
        """
        paths = set(files.paths())
        added = {path: self._by_key(files.rows(path)) for path in sorted(paths - self._files.keys())}
        gone = [self._files[path] for path in self._files.keys() - paths]
        before = {key: row for rows in gone for key, row in rows.items()}
        after = {key: row for rows in added.values() for key, row in rows.items()}
        change = RowsChange(
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
    """The data files of a Delta table at the version of the handle `table` (see `TableFiles`).

    `options` are the storage options. The returned rows have the columns in `columns`. By default, they have all
    columns of `spec` except partition columns.
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
        if self._filesystem is None:
            self._filesystem = pa_fs.PyFileSystem(DeltaStorageHandler(self._table.table_uri, self._options))
        fragment = ds.ParquetFileFormat().make_fragment(path, self._filesystem)
        return fragment.to_table(schema=self.schema)
