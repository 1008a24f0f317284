"""The tables of the contract tests: in Delta and in memory, with the same faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.table import TableOptimizer

from sharegroup.storage.schemas import TableSpec, table_path
from sharegroup.storage.writing.delta_table import DeltaVersions
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import (
    NotCommittedError,
    Row,
    Stamp,
    TableStoreError,
    Upkeep,
    VersionedTable,
    Write,
)


class TableKind(Protocol):
    """What `testing.tables.memory_tables.MemoryTables` has, for a test that runs on both."""

    is_unavailable: bool

    def table(self, spec: TableSpec) -> VersionedTable: ...
    def writer(self, spec: TableSpec, writer_id: str) -> TableWriter: ...
    def newest_version(self, spec: TableSpec) -> int: ...
    def rows(self, spec: TableSpec, version: int | None = None) -> list[Row]: ...
    def before_next_commit(self, action: Callable[[], None]) -> None: ...
    def lose_next_response(self) -> None: ...
    def reject_next_commit(self) -> None: ...
    def write_from_outside(self, spec: TableSpec, rows: Sequence[Row] = ()) -> None: ...
    def compact_from_outside(self, spec: TableSpec) -> None: ...


class DeltaTableKind:
    """The faults are set between the writer and delta-rs."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.is_unavailable = False
        self.before_commit: list[Callable[[], None]] = []
        self.lost_answers, self.refused = 0, 0

    def table(self, spec: TableSpec) -> VersionedTable:
        return FaultyDelta(self, spec)

    def writer(self, spec: TableSpec, writer_id: str) -> TableWriter:
        return TableWriter(self.table(spec), writer_id)

    def newest_version(self, spec: TableSpec) -> int:
        return DeltaTable(table_path(self.root, spec)).version()

    def rows(self, spec: TableSpec, version: int | None = None) -> list[Row]:
        found: list[Row] = DeltaTable(table_path(self.root, spec), version=version).to_pyarrow_table().to_pylist()
        return found

    def before_next_commit(self, action: Callable[[], None]) -> None:
        self.before_commit.append(action)

    def lose_next_response(self) -> None:
        self.lost_answers += 1

    def reject_next_commit(self) -> None:
        self.refused += 1

    def write_from_outside(self, spec: TableSpec, rows: Sequence[Row] = ()) -> None:
        table = pa.Table.from_pylist(list(rows), schema=spec.schema)
        write_deltalake(table_path(self.root, spec), table, mode="append")

    def compact_from_outside(self, spec: TableSpec) -> None:
        DeltaTable(table_path(self.root, spec)).optimize.compact()


class FaultyDelta(DeltaVersions):
    """A handle whose commits and looks fail as the tables say."""

    def __init__(self, tables: DeltaTableKind, spec: TableSpec) -> None:
        self._tables = tables
        super().__init__(tables.root, spec)

    def refresh(self) -> None:
        self._check_store()
        super().refresh()

    def write(self, write: Write, stamp: Stamp) -> None:
        self._check_store()
        self._before_commit()
        if self._is_refused():
            raise NotCommittedError("no space left")
        if not self._is_answer_lost():
            return super().write(write, stamp)
        other = DeltaVersions(self._tables.root, self.spec)
        if other.version == self.version:
            other.write(write, stamp)
        raise NotCommittedError("no answer came")

    def upkeep(self, upkeep: Upkeep, stamp: Stamp) -> None:
        """The action comes before the compaction's commit."""
        self._check_store()
        compact = TableOptimizer.compact

        def act_and_compact(optimizer: TableOptimizer, **options: Any) -> Any:
            self._before_commit()
            if self._is_refused():
                raise CommitFailedError("no space left")
            found = compact(optimizer, **options)
            if found["numFilesRemoved"] and self._is_answer_lost():
                raise CommitFailedError("no answer came")
            return found

        with mock.patch.object(TableOptimizer, "compact", act_and_compact):
            super().upkeep(upkeep, stamp)

    def _check_store(self) -> None:
        if self._tables.is_unavailable:
            raise TableStoreError("the store is away")

    def _before_commit(self) -> None:
        if self._tables.before_commit:
            self._tables.before_commit.pop(0)()

    def _is_refused(self) -> bool:
        is_refused = self._tables.refused > 0
        self._tables.refused -= is_refused
        return is_refused

    def _is_answer_lost(self) -> bool:
        is_lost = self._tables.lost_answers > 0
        self._tables.lost_answers -= is_lost
        return is_lost
