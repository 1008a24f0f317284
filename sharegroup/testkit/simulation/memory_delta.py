"""Delta tables in memory: versions, compare-and-set commits, pinned reads, and writers with the protocol of
`spark.delta_table.DeltaTableWriter`. Foreign writers, lost answers and slow stores are the simulation's to play."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharegroup.errors import FencedLeaderError
from sharegroup.spark.delta_table import LEADER_APP_ID
from sharegroup.tables.schemas import ALL_TABLES, TableSpec


@dataclass(frozen=True)
class TableCommit:
    """One version: `rows` appended, or in place of all before (`overwrites`)."""

    rows: pa.Table
    overwrites: bool
    app_id: str
    app_version: int
    info: dict[str, Any] | None
    writer: str


@dataclass
class MemoryTable:
    """A table: version n is the state after its first n commits (version 0 has no rows)."""

    spec: TableSpec
    commits: list[TableCommit] = field(default_factory=list)
    _read: dict[int, pa.Table] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.commits)

    def transaction_version(self, app_id: str) -> int | None:
        """The newest version that an application noted."""
        return next((c.app_version for c in reversed(self.commits) if c.app_id == app_id), None)

    def last_info(self) -> dict[str, Any] | None:
        """The newest commit's entry of this project."""
        return next((commit.info for commit in reversed(self.commits) if commit.info is not None), None)

    def read(self, version: int | None = None) -> pa.Table:
        """All rows at a version, by default the newest."""
        at = self.version if version is None else version
        if at not in self._read:
            chunks = []
            for commit in reversed(self.commits[:at]):
                if commit.rows.num_rows or commit.overwrites:
                    chunks.append(commit.rows)
                if commit.overwrites:
                    break
            table = pa.concat_tables(reversed(chunks)) if chunks else self.spec.schema.empty_table()
            if len(self._read) > 8:
                self._read.clear()
            self._read[at] = table
        return self._read[at]


class MemoryTables:
    """All tables of a `tables.path`."""

    def __init__(self) -> None:
        self.tables = {spec.name: MemoryTable(spec) for spec in ALL_TABLES}
        self._writers = itertools.count(1)

    def __getitem__(self, name: str) -> MemoryTable:
        return self.tables[name]

    def writer_id(self) -> str:
        """An id for a writer."""
        return f"writer-{next(self._writers)}"


class PinnedMemoryTable:
    """What readers use of a `deltalake.DeltaTable`."""

    def __init__(self, table: MemoryTable, version: int | None = None) -> None:
        self._table = table
        self._version = table.version if version is None else version

    def version(self) -> int:
        """The version that is read."""
        return self._version

    def update_incremental(self) -> None:
        """Go to the newest version."""
        self._version = self._table.version

    def to_pyarrow_table(
        self, columns: Sequence[str] | None = None, filters: Collection[tuple[str, str, Any]] | None = None
    ) -> pa.Table:
        """The rows."""
        rows = self._table.read(self._version)
        for column, operator, value in filters or ():
            assert operator in ("in", "=")
            values = list(value) if operator == "in" else [value]
            rows = rows.filter(pc.is_in(rows[column], pa.array(values, rows.schema.field(column).type)))
        return rows.select(list(columns)) if columns else rows


class StoreFaults:
    """What may go wrong at a store; this one is in order. `pause` lets the time of a commit pass."""

    def pause(self, table: str) -> None:
        """Called before each commit reaches the store, and after it, before the writer has the answer."""

    def loses_answer(self, table: str) -> bool:
        """Whether the writer does not hear of the commit that it made."""
        return False


class MemoryTableWriter:
    """One table's writer, fenced by its version."""

    def __init__(self, tables: MemoryTables, spec: TableSpec, faults: StoreFaults) -> None:
        self.spec = spec
        self._table = tables[spec.name]
        self._faults = faults
        self._id = tables.writer_id()
        self._version = self._table.version
        self._led_epoch = 0
        self._fenced: FencedLeaderError | None = None
        self.last_info = self._table.last_info()

    @property
    def version(self) -> int:
        """The table's version as this writer knows it."""
        return self._version

    @property
    def leader_epoch(self) -> int:
        """The highest leader epoch that this writer knows of, 0 before the first."""
        epochs = (c.app_version for c in self._table.commits[: self._version] if c.app_id == LEADER_APP_ID)
        return max(epochs, default=0)

    def lead(self, leader_epoch: int) -> None:
        """Write the leader epoch as a commit of its own."""
        self._commit(self.spec.schema.empty_table(), False, LEADER_APP_ID, leader_epoch)
        self._led_epoch = leader_epoch

    def committed(self, app_id: str) -> int:
        """The highest batch id that `app_id` committed here, -1 for none."""
        commits = reversed(self._table.commits[: self._version])
        return next((c.app_version for c in commits if c.app_id == app_id), -1)

    def commit(self, app_id: str, batch_id: int, rows: pa.Table, info: dict[str, Any] | None = None) -> bool:
        """Append or replace; False when it was done before. Raises FencedLeaderError."""
        if self.committed(app_id) >= batch_id:
            return False
        if info is not None:
            self.last_info = info
        self._commit(rows, not self.spec.is_append_only, app_id, batch_id)
        return True

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows at the writer's version."""
        rows = self._table.read(self._version)
        return rows.select(list(columns)) if columns else rows

    def upkeep(self, versions_retention: timedelta, local_versions: int, prune_before: str | None) -> None:
        """A compaction, which the store rebases on whatever was committed meanwhile."""
        if self._fenced or self._table.version != self._version:
            raise self._fence()
        self._faults.pause(self.spec.name)
        self._put(TableCommit(self.spec.schema.empty_table(), False, "", 0, self.last_info, self._id))
        self._version = self._table.version
        if self.leader_epoch != self._led_epoch:
            raise self._fence()

    def _commit(self, rows: pa.Table, overwrites: bool, app_id: str, version: int) -> None:
        if self._fenced:
            raise self._fenced
        self._faults.pause(self.spec.name)
        known = self._version
        if self._table.version != known:
            raise self._fence()
        self._put(TableCommit(rows, overwrites, app_id, version, self.last_info, self._id))
        lost = self._faults.loses_answer(self.spec.name)
        self._faults.pause(self.spec.name)
        if lost:  # as `DeltaTableWriter.has_committed`: it looks who has written since
            self._version = self._table.version
            if any(commit.writer != self._id for commit in self._table.commits[known:]):
                raise self._fence()
        else:
            self._version = known + 1

    def _put(self, commit: TableCommit) -> None:
        self._table.commits.append(commit)

    def _fence(self) -> FencedLeaderError:
        self._version = self._table.version
        self._fenced = FencedLeaderError(
            f"FENCED_LEADER_EPOCH: another writer committed to {self.spec.name} (mine: {self._led_epoch}, there now: "
            f"{self.leader_epoch})"
        )
        return self._fenced
