"""The tables of a run: those of `testing.tables.memory_tables`, with the delays and faults of a store.

The real `storage.writing.table_writer` makes all decisions above them: who may write, and what was committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from sharegroup.storage.schemas import ALL_TABLES, SHARE_GROUP_STATE, TableSpec
from sharegroup.storage.upkeep.table_upkeep import TableUpkeep
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import NotCommittedError, Stamp, Upkeep, Write
from tests.harness.memory_tables import MemoryTable, MemoryTables
from tests.simulation.job.simulated_bases import SimulatedBases

SPECS = {spec.name: spec for spec in ALL_TABLES}


class StoreFaults:
    """The faults of a store; this one has none. `pause` lets the time of a commit pass."""

    def pause(self, table: str) -> None:
        """Wait before each commit reaches the store, and after it before the writer has the response."""

    def pause_sync(self, table: str) -> None:
        """Wait before a commit is synced."""

    def loses_answer(self, table: str) -> bool:
        """Return whether the writer receives no response to the commit that it made."""
        return False


class SimulatedTables(MemoryTables):
    """All tables of a `tables.path`. Versions are cached, because they are read repeatedly."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[str, tuple[int, pa.Table]] = {}
        #: The number of lost commits, after which version numbers are used again.
        self.losses = 0
        self._ids = itertools.count(1)
        self.bases = SimulatedBases(self)

    def arrow(self, spec: TableSpec, version: int | None = None) -> pa.Table:
        """Return the rows at a version, or the newest; rows of append-only tables are converted to Arrow once."""
        at = self.newest_version(spec) if version is None else version
        known = self._read.get(spec.name)
        if known is not None and known[0] == at:
            return known[1]
        if known is not None and known[0] < at and spec.is_append_only:
            log = self.get_log(spec)[known[0] + 1 : at + 1]
            if not any(each.prunes for each in log):
                rows = [row for each in log for row in each.write.rows]
                table = pa.concat_tables([known[1], pa.Table.from_pylist(rows, schema=spec.schema)])
                self._read[spec.name] = at, table.combine_chunks()
                return self._read[spec.name][1]
        table = super().arrow(spec, at)
        self._read[spec.name] = at, table
        return table

    def lose_power(self, random: Random) -> list[str]:
        """Lose power for all tables; see `lose_unsynced`."""
        self._read.clear()
        self.losses += 1
        return self.lose_unsynced(ALL_TABLES, random)

    def lose_from(self, spec: TableSpec, version: int) -> None:
        self._read.clear()
        self.losses += 1
        super().lose_from(spec, version)

    def recover_torn(self) -> list[str]:
        torn = super().recover_torn()
        self.bases.forget_after(self.newest_version(SHARE_GROUP_STATE))
        return torn

    def handle(self, spec: TableSpec, faults: StoreFaults) -> SlowTable:
        """Return a handle at the newest version, at a store with these faults."""
        return SlowTable(self, spec, faults)

    def slow_writer(self, spec: TableSpec, faults: StoreFaults) -> TableWriter:
        """Return a writer with its own id."""
        return TableWriter(self.handle(spec, faults), f"writer-{next(self._ids)}")

    def upkeep_of(self, spec: TableSpec, faults: StoreFaults) -> TableUpkeep:
        """Return the upkeep with its own handle."""
        return TableUpkeep(self.handle(spec, faults), f"upkeep-{next(self._ids)}")

    def pinned(self, name: str, version: int | None = None) -> PinnedTable:
        """Return the table at one version, as the source's readers open it."""
        return PinnedTable(self, SPECS[name], version)


class SlowTable(MemoryTable):
    """A handle whose commits take time."""

    def __init__(self, tables: SimulatedTables, spec: TableSpec, faults: StoreFaults) -> None:
        super().__init__(tables, spec)
        self._faults = faults

    def write(self, write: Write, stamp: Stamp) -> None:
        self._slowly(lambda: MemoryTable.write(self, write, stamp))

    def upkeep(self, upkeep: Upkeep, stamp: Stamp) -> None:
        self._slowly(lambda: MemoryTable.upkeep(self, upkeep, stamp))

    def sync(self) -> None:
        self._faults.pause_sync(self.spec.name)
        MemoryTable.sync(self)

    def _slowly(self, commit: Callable[[], None]) -> None:
        known = self.version
        self._faults.pause(self.spec.name)
        commit()
        is_lost = self._faults.loses_answer(self.spec.name)
        self._faults.pause(self.spec.name)
        if is_lost:
            self.version = known
            raise NotCommittedError("no answer came")


class PinnedTable:
    """The part of a `deltalake.DeltaTable` that readers use."""

    def __init__(self, tables: SimulatedTables, spec: TableSpec, version: int | None) -> None:
        self._tables, self._spec = tables, spec
        self._version = tables.newest_version(spec) if version is None else version

    def version(self) -> int:
        """Return the version that is read."""
        return self._version

    def update_incremental(self) -> None:
        """Go to the newest version."""
        self._version = self._tables.newest_version(self._spec)

    def to_pyarrow_table(
        self,
        columns: Sequence[str] | None = None,
        filters: pc.Expression | None = None,
    ) -> pa.Table:
        """Return the rows of the version that is read."""
        rows = self._tables.arrow(self._spec, self._version)
        if filters is not None:
            rows = rows.filter(filters)
        return rows.select(list(columns)) if columns else rows
