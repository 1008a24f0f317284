"""Reads rows of a table at its newest version."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from sharegroup.errors import ShareGroupError
from sharegroup.storage.schemas import FORMAT_PROPERTY, FORMAT_VERSION, TableSpec, table_path
from sharegroup.storage.store_outage import one_line

StorageOptions = Mapping[str, str] | None
Row = dict[str, Any]


class TableUnavailableError(ShareGroupError):
    """A table is missing or cannot be read; `__cause__` has the original error."""


class TableMissingError(TableUnavailableError):
    """The table does not exist: no job has run on this `tables.path`."""


class TableFormatError(TableUnavailableError):
    """Another version of this project wrote the table, in a format that this version cannot read."""


def check_format(table: DeltaTable, spec: TableSpec) -> None:
    """Raise TableFormatError unless the table has the format that this version reads and writes."""
    found = table.metadata().configuration.get(FORMAT_PROPERTY)
    if found != FORMAT_VERSION:
        raise TableFormatError(
            f"table {spec.name} has format {found}, but this version reads format {FORMAT_VERSION}: "
            "run the version that wrote it, or set tables.path to an empty directory"
        )


def open_table(tables_path: str, spec: TableSpec, storage_options: StorageOptions = None) -> DeltaTable:
    """Open a table at its newest version.

    Raises TableMissingError, TableFormatError, or TableUnavailableError if it cannot be opened for another reason.
    """
    try:
        table = DeltaTable(table_path(tables_path, spec), storage_options=dict(storage_options or {}) or None)
    except TableNotFoundError as error:
        raise TableMissingError(f"table {spec.name} does not exist: no job has run on {tables_path}") from error
    except (DeltaError, OSError) as error:
        raise TableUnavailableError(f"table {spec.name} cannot be opened: {one_line(error)}") from error
    check_format(table, spec)
    return table


@contextmanager
def reading(spec: TableSpec) -> Iterator[None]:
    """Convert errors of delta-rs and of the file system in the `with` block to TableUnavailableError."""
    try:
        yield
    except (DeltaError, OSError) as error:
        raise TableUnavailableError(f"table {spec.name} cannot be read: {one_line(error)}") from error


class DeltaTables:
    """The tables below a `tables.path`. A table is opened each time it is read.

    Methods raise TableUnavailableError if a table is missing or cannot be read.
    """

    def __init__(self, tables_path: str, storage_options: StorageOptions = None) -> None:
        self._tables_path, self._options = tables_path, storage_options

    @classmethod
    def from_path(cls, tables: str | DeltaTables, storage_options: StorageOptions = None) -> DeltaTables:
        """Return the tables below the path `tables`. If `tables` is not a path, return it unchanged."""
        return cls(tables, storage_options) if isinstance(tables, str) else tables

    def open(self, spec: TableSpec) -> DeltaTable:
        """Open a table at its newest version. Raises TableMissingError, TableUnavailableError."""
        return open_table(self._tables_path, spec, self._options)

    def open_if_exists(self, spec: TableSpec) -> DeltaTable | None:
        """Open a table; None if it does not exist. Raises TableUnavailableError."""
        try:
            return self.open(spec)
        except TableMissingError:
            return None

    def rows(self, spec: TableSpec, group_ids: Collection[str] | None = None) -> list[Row]:
        """Return the rows of the given groups, or of all groups by default, ordered by the table's key."""
        with reading(spec):
            rows: list[Row] = self._read(spec, group_ids).to_pylist()
        return sorted(rows, key=lambda row: tuple(row[column] for column in spec.key))

    def select(self, spec: TableSpec, filters: Any, columns: Sequence[str]) -> pa.Table:
        """Return `columns` of the rows that match `filters`, which are in delta-rs's format."""
        table = self.open(spec)
        with reading(spec):
            return table.to_pyarrow_table(filters=filters, columns=list(columns))

    def _read(self, spec: TableSpec, group_ids: Collection[str] | None) -> pa.Table:
        filters = None if group_ids is None else [("group_id", "in", sorted(group_ids))]
        return self.open(spec).to_pyarrow_table(filters=filters)
