"""Tables in Delta, accessed with delta-rs."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from sharegroup.log_fields import LogFields
from sharegroup.storage.rows import check_format
from sharegroup.storage.schemas import CHUNK, FORMAT_PROPERTY, FORMAT_VERSION, TableSpec, table_path
from sharegroup.storage.store_outage import one_line
from sharegroup.storage.writing.delta_commit import NO_HOOKS, commit_of, commit_properties
from sharegroup.storage.writing.delta_upkeep import MIN_HOURS, DeltaUpkeep, retention_properties
from sharegroup.storage.writing.local_sync import LocalSync
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import (
    Commit,
    NotCommittedError,
    Row,
    Stamp,
    TableStoreError,
    Upkeep,
    Write,
)

logger = logging.getLogger(__name__)


def open_or_create(root: str, spec: TableSpec, options: dict[str, str] | None = None) -> DeltaTable:
    """Open a table at its newest version. If the table is missing, create it first. Raises TableFormatError.

    Only table features that both delta-rs and delta-spark support are used. The offsets of a streaming source name
    versions of the table. A new table therefore keeps old versions for 24 hours, so that the source can still read them
    after a restart. The first upkeep sets the configured retention.
    """
    path = table_path(root, spec)
    try:
        table = DeltaTable(path, storage_options=options)
    except TableNotFoundError:
        if "://" not in path:
            Path(path).mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            path,
            schema=spec.schema,
            mode="ignore",
            partition_by=list(spec.partition_by) or None,
            name=spec.name,
            configuration={FORMAT_PROPERTY: FORMAT_VERSION, **retention_properties(MIN_HOURS)},
            raise_if_key_not_exists=False,  # the format's property is unknown to delta-rs
            storage_options=options,
        )
        LocalSync(path).sync(0)
        table = DeltaTable(path, storage_options=options)
    check_format(table, spec)
    return table


class DeltaVersions:
    """A `VersionedTable` stored as a Delta table."""

    def __init__(
        self,
        root: str,
        spec: TableSpec,
        options: dict[str, str] | None = None,
        is_synced: bool = True,
        version: int | None = None,
    ) -> None:
        """`is_synced` decides whether commits survive a power loss on a local disk (see `local_sync`).

        `version` is an older version to read; None means the newest.
        """
        self.spec, self._root, self._options = spec, root, options
        #: The schema without column comments, because the comments may have been different when the table was created.
        self._written = pa.schema([field.remove_metadata() for field in spec.schema])
        self._sync = LocalSync(table_path(root, spec), is_synced)
        self._upkeep = DeltaUpkeep(table_path(root, spec), options, self._sync)
        with store_errors():
            self._table = open_or_create(root, spec, options)
            if version is not None:
                self._table.load_as_version(version)

    @property
    def version(self) -> int:
        return self._table.version()

    @property
    def handle(self) -> DeltaTable:
        """The handle of delta-rs, for reading."""
        return self._table

    def refresh(self) -> None:
        with store_errors():
            self._table.update_incremental()

    def transaction_version(self, app_id: str) -> int | None:
        with store_errors():
            return self._table.transaction_version(app_id)

    def commits(self, count: int) -> Sequence[Commit]:
        with store_errors():
            found = self._table.history(count)
        return [commit_of(entry) for entry in found]

    def rows(self) -> list[Row]:
        with store_errors():
            rows: list[Row] = self._table.to_pyarrow_table().to_pylist()
        return rows

    def at(self, version: int) -> DeltaVersions:
        with store_errors():
            return DeltaVersions(self._root, self.spec, self._options, version=version)

    def restore(self, version: int, stamp: Stamp) -> None:
        with store_errors():
            self._table.restore(
                version, commit_properties=commit_properties(stamp), post_commithook_properties=NO_HOOKS
            )
            self._table.update_incremental()

    def write(self, write: Write, stamp: Stamp) -> None:
        """Commit a write. The old rows of its chunks are removed by partition, so no file has to be read."""
        rows = pa.Table.from_pylist(list(write.rows), schema=self._written)
        properties = commit_properties(stamp)
        with store_errors():
            if write.chunks:
                write_deltalake(
                    self._table, rows, mode="overwrite", predicate=_in_chunks(write.chunks),
                    commit_properties=properties, post_commithook_properties=NO_HOOKS,
                )  # fmt: skip
            else:
                write_deltalake(
                    self._table, rows, mode="append",
                    commit_properties=properties, post_commithook_properties=NO_HOOKS,
                )  # fmt: skip

    def sync(self) -> None:
        with store_errors():
            self._sync.sync(self.version)

    def upkeep(self, upkeep: Upkeep, stamp: Stamp) -> None:
        with store_errors():
            self._upkeep.run(self._table, upkeep, commit_properties(stamp))
        logger.debug(
            "upkeep of %(table)s ended at version %(version)d", LogFields(table=self.spec.name, version=self.version)
        )


class DeltaTableWriter(TableWriter):
    """The `TableWriter` of a Delta table, with a new writer id."""

    def __init__(
        self, root: str, spec: TableSpec, options: dict[str, str] | None = None, is_synced: bool = True
    ) -> None:
        super().__init__(DeltaVersions(root, spec, options, is_synced), str(uuid.uuid4()))


def _in_chunks(chunks: Collection[int]) -> str:
    return f"{CHUNK} IN ({', '.join(map(str, sorted(chunks)))})"


@contextmanager
def store_errors() -> Iterator[None]:
    """Convert errors of delta-rs and of the file system in the `with` block.

    NotCommittedError replaces the error of a failed commit. TableStoreError replaces all others.
    """
    try:
        yield
    except CommitFailedError as error:
        raise NotCommittedError(one_line(error)) from error
    except (DeltaError, OSError) as error:
        raise TableStoreError(f"{type(error).__name__}: {one_line(error)}") from error
