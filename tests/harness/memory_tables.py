"""The job's tables in memory, with versions, commits and failures like those of a Delta table.

    tables = MemoryTables()
    writer = tables.writer(SHARE_GROUP_STATE, "job-1")

A handle shows one version until it commits or is refreshed, as with Delta. Faults are set on the tables: an unavailable
store, a commit that is made but whose response is lost, another action immediately before a commit, and a power loss
that removes commits that were not synced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from sharegroup.storage.schemas import CHUNK, TableSpec
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

_NOTHING = Write(())


@dataclass(frozen=True)
class _Version:
    """One commit. If it `prunes`, its rows replace all rows of the table.

    `transactions` holds the newest version of each transaction id; in a log, of all commits so far. In the log of a
    table of current state, `files` holds all files that exist then, by chunk.
    """

    commit: Commit
    write: Write = _NOTHING
    prunes: bool = False
    transactions: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[int | None, Sequence[MemoryFile]] = field(default_factory=dict)
    is_torn: bool = False


class MemoryFile(NamedTuple):
    """Rows that one commit wrote to one chunk."""

    version: int
    rows: Sequence[Row]


class MemoryTables:
    """All tables of a job. A table is created when it is first used."""

    def __init__(self) -> None:
        self._logs: dict[str, list[_Version]] = {}
        self._before_commit: list[Callable[[], None]] = []
        self._lost_responses, self._rejected = 0, 0
        self._synced: dict[str, int] = {}
        #: While True, nothing can be read, written or listed.
        self.is_unavailable = False
        #: While True, nothing can be written.
        self.is_full = False

    def table(self, spec: TableSpec) -> MemoryTable:
        """Return a handle at the newest version."""
        return MemoryTable(self, spec)

    def writer(self, spec: TableSpec, writer_id: str) -> TableWriter:
        """Return a writer, which can acquire the lead."""
        return TableWriter(self.table(spec), writer_id)

    # -- reading

    def newest_version(self, spec: TableSpec) -> int:
        return len(self.get_log(spec)) - 1

    def rows(self, spec: TableSpec, version: int | None = None) -> list[Row]:
        """Return the rows at a version, or the newest one, in Delta's types: times are datetimes."""
        return self.arrow(spec, version).to_pylist()

    def arrow(self, spec: TableSpec, version: int | None = None) -> pa.Table:
        log = self.get_log(spec)
        end = len(log) if version is None else version + 1
        if spec.is_append_only:
            start = max((number for number in range(end) if log[number].prunes), default=0)
            rows = [row for each in log[start:end] for row in each.write.rows]
        else:
            rows = [row for files in log[end - 1].files.values() for file in files for row in file.rows]
        return pa.Table.from_pylist(rows, schema=spec.schema)

    def files(self, spec: TableSpec, version: int | None = None) -> MemoryFiles:
        """Return the files of a table of current state at a version, or the newest one."""
        log = self.get_log(spec)
        return MemoryFiles(spec, log[-1 if version is None else version].files)

    # -- faults

    def before_next_commit(self, action: Callable[[], None]) -> None:
        """Call an action once, immediately before the next commit to any table."""
        self._before_commit.append(action)

    def lose_next_response(self) -> None:
        """Make the next commit, but report a failure to its writer."""
        self._lost_responses += 1

    def reject_next_commit(self) -> None:
        self._rejected += 1

    def write_from_outside(self, spec: TableSpec, rows: Sequence[Row] = ()) -> None:
        """Append a commit of a writer that is not a job."""
        self._append(spec, _Version(Commit(None, False, None), Write(rows)))

    def compact_from_outside(self, spec: TableSpec) -> None:
        """Append a commit of such a writer that only rearranges files."""
        self._append(spec, _Version(Commit(None, True, None)))

    def lose_unsynced(self, tables: Iterable[TableSpec], random: Random) -> list[str]:
        """Simulate a power loss: of each table's unsynced commits, only the first few remain; the next may be torn.

        A torn commit makes the table unreadable until `recover_torn`. Returns the names of tables that lost commits.
        """
        lost = []
        for spec in tables:
            log, synced = self.get_log(spec), self._synced.get(spec.name, 0)
            stay = random.randint(synced + 1, len(log))
            if stay < len(log):
                lost.append(spec.name)
                torn = [replace(log[stay], is_torn=True)] if random.random() < 0.5 else []
                log[stay:] = torn
        return lost

    def lose_from(self, spec: TableSpec, version: int) -> None:
        """Remove a version and all later ones without a trace."""
        del self.get_log(spec)[version:]
        self._synced[spec.name] = min(self._synced.get(spec.name, 0), version - 1)

    def torn_tables(self) -> list[str]:
        """Return the names of the tables that are unreadable because their newest commit is torn."""
        return [name for name, log in self._logs.items() if log[-1].is_torn]

    def recover_torn(self) -> list[str]:
        """Remove torn commits, as `storage.writing.torn_log` does; return the names of their tables."""
        torn = self.torn_tables()
        for name in torn:
            self._logs[name].pop()
        return torn

    # -- interface of the handles

    def mark_synced(self, spec: TableSpec, version: int) -> None:
        """Make the commits up to this version survive a power loss."""
        self._synced[spec.name] = max(version, self._synced.get(spec.name, 0))

    def get_log(self, spec: TableSpec) -> list[_Version]:
        """Return a table's commits, by version. Raises TableStoreError."""
        if self.is_unavailable:
            raise TableStoreError("the store is away")
        log = self._logs.setdefault(spec.name, [_Version(Commit(None, False, None))])
        if log[-1].is_torn:
            raise TableStoreError(f"version {len(log) - 1} of {spec.name} is torn")
        return log

    def add(self, spec: TableSpec, known: int, made: _Version) -> int:
        """Commit after version `known` and return the new version. Upkeep that prunes nothing ignores other appends.

        Raises NotCommittedError.
        """
        if self._before_commit:
            self._before_commit.pop(0)()
        if self.is_full:
            raise TableStoreError("OSError: No space left on device")
        others = self.get_log(spec)[known + 1 :]
        is_alone = made.prunes or not made.commit.rearranges
        if (is_alone and others) or any(map(_removes, others)):
            raise NotCommittedError(f"version {known + 1} of {spec.name} already exists")
        if self._rejected:
            self._rejected -= 1
            raise NotCommittedError("no space left")
        version = self._append(spec, made)
        if self._lost_responses:
            self._lost_responses -= 1
            raise NotCommittedError("no answer came")
        return version

    def _append(self, spec: TableSpec, made: _Version) -> int:
        log = self.get_log(spec)
        transactions = {**log[-1].transactions, **made.transactions}
        files = {} if spec.is_append_only else _files(log[-1].files, made.write, len(log))
        log.append(replace(made, transactions=transactions, files=files))
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
        log = self._tables.get_log(self.spec)[: self.version + 1]
        return [each.commit for each in reversed(log[-count:])]

    def at(self, version: int) -> MemoryTable:
        older = MemoryTable(self._tables, self.spec)
        older.version = version
        return older

    def restore(self, version: int, stamp: Stamp) -> None:
        older = self._tables.get_log(self.spec)[version]
        chunks = {chunk for chunk in (*self._now().files, *older.files) if chunk is not None}
        self._add(Write(self.at(version).rows(), chunks), stamp, prunes=self.spec.is_append_only)

    def rows(self) -> list[Row]:
        return self._tables.rows(self.spec, self.version)

    def write(self, write: Write, stamp: Stamp) -> None:
        """Write rows. Asserts that they belong to the replaced chunks, because Delta would reject others."""
        assert not write.chunks or {row[CHUNK] for row in write.rows} <= set(write.chunks)
        copied = Write([dict(row) for row in write.rows], write.chunks)
        self._add(copied, stamp)

    def sync(self) -> None:
        self._tables.mark_synced(self.spec, self.version)

    def upkeep(self, upkeep: Upkeep, stamp: Stamp) -> None:
        """Prune, compact and vacuum; the latter two ignore the commits of others, as in delta-rs."""
        if upkeep.prune_before is not None:
            kept = [row for row in self.rows() if not _is_pruned(row, upkeep.prune_before)]
            self._add(Write(kept), stamp, prunes=True)
        for _ in ("OPTIMIZE", "VACUUM"):
            made = _Version(Commit(stamp.writer, True, stamp.info))
            self.version = self._tables.add(self.spec, self.version, made)
        self.sync()

    def _add(self, write: Write, stamp: Stamp, prunes: bool = False) -> None:
        transactions = {} if stamp.app_id is None else {stamp.app_id: stamp.version}
        made = _Version(Commit(stamp.writer, stamp.is_upkeep, stamp.info), write, prunes, transactions)
        self.version = self._tables.add(self.spec, self.version, made)

    def _now(self) -> _Version:
        return self._tables.get_log(self.spec)[self.version]


class MemoryFiles:
    """The files of a table of current state at one version, for `storage.following.rows_by_file`."""

    def __init__(self, spec: TableSpec, files: Mapping[int | None, Sequence[MemoryFile]]) -> None:
        self._spec = spec
        self._rows = {f"{CHUNK}={chunk}/{file.version}": file.rows for chunk in files for file in files[chunk]}

    def paths(self) -> Collection[str]:
        return self._rows.keys()

    def rows(self, path: str) -> list[Row]:
        """Return a file's rows without the chunk, which is in the path."""
        rows: list[Row] = pa.Table.from_pylist(list(self._rows[path]), schema=self._spec.schema).to_pylist()
        return [{name: value for name, value in row.items() if name != CHUNK} for row in rows]


def _files(
    before: Mapping[int | None, Sequence[MemoryFile]], write: Write, version: int
) -> Mapping[int | None, Sequence[MemoryFile]]:
    """Return the files of a table of current state after a commit; rows from other writers may have no chunk."""
    files = {chunk: found for chunk, found in before.items() if chunk not in write.chunks}
    written: dict[int | None, list[Row]] = {}
    for row in write.rows:
        written.setdefault(row.get(CHUNK), []).append(row)
    for chunk, rows in written.items():
        files[chunk] = [*files.get(chunk, ()), MemoryFile(version, rows)]
    return files


def _removes(made: _Version) -> bool:
    return bool(made.prunes or made.write.chunks or made.commit.rearranges)


def _is_pruned(row: Mapping[str, Any], predicate: str) -> bool:
    column, _, day = predicate.partition(" < ")
    return str(row[column]) < day.strip("'")
