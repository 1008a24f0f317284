"""The job's tables in memory, with the versions, commits and failures that a Delta table has.

    tables = MemoryTables()
    writer = tables.writer(SHARE_GROUP_STATE, "job-1")

Handles see a version until they commit or are refreshed, as with Delta. Faults are set on the tables: a store that is
away, a commit that is made and whose answer is lost, and something else that happens right before a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sharegroup.commit.table_writer import TableWriter
from sharegroup.commit.versioned_table import Commit, NotCommittedError, Row, Stamp, TableStoreError, Upkeep
from sharegroup.tables.schemas import TableSpec


@dataclass(frozen=True)
class _Version:
    """One commit: `rows` are all that it adds, or, when it `replaces`, all that there are then.

    `transactions` are the newest of each id, in the log all that were made so far.
    """

    commit: Commit
    rows: Sequence[Row]
    replaces: bool
    transactions: Mapping[str, int]


class MemoryTables:
    """All tables of a job. A table is made when it is first asked for."""

    def __init__(self) -> None:
        self._logs: dict[str, list[_Version]] = {}
        self._before_commit: list[Callable[[], None]] = []
        self._lost_answers, self._refused = 0, 0
        #: While true, nothing can be read, written or looked at.
        self.is_away = False

    def table(self, spec: TableSpec) -> MemoryTable:
        """A handle at the newest version."""
        return MemoryTable(self, spec)

    def writer(self, spec: TableSpec, writer_id: str) -> TableWriter:
        """A writer, to take the lead."""
        return TableWriter(self.table(spec), writer_id)

    # -- what others see

    def newest_version(self, spec: TableSpec) -> int:
        """The table's version now."""
        return len(self.log_of(spec)) - 1

    def rows(self, spec: TableSpec, version: int | None = None) -> list[Row]:
        """The rows at a version, or the newest, as Delta gives them: times are datetimes."""
        return self.arrow(spec, version).to_pylist()

    def arrow(self, spec: TableSpec, version: int | None = None) -> pa.Table:
        """The same as an Arrow table."""
        log = self.log_of(spec)
        end = len(log) if version is None else version + 1
        start = max((number for number in range(end) if log[number].replaces), default=0)
        rows = [row for each in log[start:end] for row in each.rows]
        return pa.Table.from_pylist(rows, schema=spec.schema)

    # -- faults

    def before_next_commit(self, action: Callable[[], None]) -> None:
        """Do something right before the next commit comes to its table, once."""
        self._before_commit.append(action)

    def lose_next_answer(self) -> None:
        """The next commit is made, and its writer is told that it failed."""
        self._lost_answers += 1

    def refuse_next_commit(self) -> None:
        """The next commit is not made."""
        self._refused += 1

    def write_from_outside(self, spec: TableSpec, rows: Sequence[Row] = ()) -> None:
        """A commit of somebody who is no job."""
        self._append(spec, _Version(Commit(None, False, None), rows, False, {}))

    def compact_from_outside(self, spec: TableSpec) -> None:
        """The same of somebody who only rearranges."""
        self._append(spec, _Version(Commit(None, True, None), (), False, {}))

    # -- for the handles

    def log_of(self, spec: TableSpec) -> list[_Version]:
        """A table's commits, by version. Raises TableStoreError."""
        if self.is_away:
            raise TableStoreError("the store is away")
        return self._logs.setdefault(spec.name, [_Version(Commit(None, False, None), (), True, {})])

    def add(self, spec: TableSpec, known: int, made: _Version) -> int:
        """Commit as the version after `known`; the new version. Upkeep that replaces nothing goes over others' appends.

        Raises NotCommittedError.
        """
        if self._before_commit:
            self._before_commit.pop(0)()
        others = self.log_of(spec)[known + 1 :]
        is_alone = made.replaces or not made.commit.rearranges
        if (is_alone and others) or any(each.replaces or each.commit.rearranges for each in others):
            raise NotCommittedError(f"version {known + 1} of {spec.name} is there already")
        if self._refused:
            self._refused -= 1
            raise NotCommittedError("no space left")
        version = self._append(spec, made)
        if self._lost_answers:
            self._lost_answers -= 1
            raise NotCommittedError("no answer came")
        return version

    def _append(self, spec: TableSpec, made: _Version) -> int:
        log = self.log_of(spec)
        log.append(replace(made, transactions={**log[-1].transactions, **made.transactions}))
        return len(log) - 1


class MemoryTable:
    """A `VersionedTable` in memory."""

    def __init__(self, tables: MemoryTables, spec: TableSpec) -> None:
        self._tables, self.spec = tables, spec
        self.version = tables.newest_version(spec)

    def refresh(self) -> None:
        self.version = self._tables.newest_version(self.spec)

    def transaction_version(self, app_id: str) -> int | None:
        return self._now().transactions.get(app_id)

    def commits(self, count: int) -> Sequence[Commit]:
        log = self._tables.log_of(self.spec)[: self.version + 1]
        return [each.commit for each in reversed(log[-count:])]

    def rows(self) -> list[Row]:
        return self._tables.rows(self.spec, self.version)

    def write(self, rows: Sequence[Row], replace: bool, stamp: Stamp) -> None:
        transactions = {} if stamp.app_id is None else {stamp.app_id: stamp.version}
        commit = Commit(stamp.writer, stamp.is_upkeep, stamp.info)
        made = _Version(commit, [dict(row) for row in rows], replace, transactions)
        self.version = self._tables.add(self.spec, self.version, made)

    def upkeep(self, upkeep: Upkeep, stamp: Stamp) -> None:
        """Compaction and vacuum go over the commits of others, as delta-rs has it."""
        if upkeep.prune_before is not None:
            kept = [row for row in self.rows() if not _is_pruned(row, upkeep.prune_before)]
            self.write(kept, True, stamp)
        for _ in ("OPTIMIZE", "VACUUM"):
            made = _Version(Commit(stamp.writer, True, stamp.info), (), False, {})
            self.version = self._tables.add(self.spec, self.version, made)

    def _now(self) -> _Version:
        return self._tables.log_of(self.spec)[self.version]


def _is_pruned(row: Mapping[str, Any], predicate: str) -> bool:
    column, _, day = predicate.partition(" < ")
    return str(row[column]) < day.strip("'")
