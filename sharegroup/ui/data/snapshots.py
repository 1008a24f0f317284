"""Takes snapshots of the tables and logs. All open pages show the newest snapshot, which one thread takes.

A snapshot reads the changes since the previous snapshot. Then the thread waits for `INTERVAL_S` seconds, or for nine
times the CPU time that the process used during the snapshot if this is longer. So snapshots use at most a tenth of a
core. On a busy machine, a snapshot takes longer but the wait does not. Pages do not wait for a new snapshot.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from sharegroup.config import NO_CELL, Config
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.errors import ShareGroupError
from sharegroup.kafka_clients.admin import LogOffsets
from sharegroup.storage import (
    CachedTables,
    ShareGroupDescription,
    TableMissingError,
    read_group_configs,
    read_group_descriptions,
    read_groups,
)
from sharegroup.storage.reading.offsets import share_partition_offset
from sharegroup.storage.reading.state_table import read_current_states
from sharegroup.storage.schemas import SHARE_GROUP_STATE
from sharegroup.types import RecordState, SharePartitionKey, StateBatch, is_reserved
from sharegroup.ui.data.logs import Logs, Place
from sharegroup.ui.data.trend import LagHistory

logger = logging.getLogger(__name__)

INTERVAL_S = 5.0
#: Maximum fraction of a core that snapshots use.
_SHARE = 1 / 10
#: Maximum number of records whose timestamps a snapshot reads from the logs. Later snapshots read the remaining ones.
_MAX_LOOKUPS = 100

States = Mapping[SharePartitionKey, ShareGroupOffset]


class PartitionView(NamedTuple):
    """A share-partition as pages show it. Unknown values are None.

    `oldest_ms` is the timestamp of the record at the start offset, if the lag is not 0. `batches` are the ranges of
    records in flight, sorted by offset.
    """

    topic: str
    topic_id: str
    partition: int
    start_offset: int | None
    log: LogOffsets | None
    lag: int | None
    oldest_ms: int | None
    batches: tuple[StateBatch, ...]

    def records(self, state: RecordState) -> int:
        """Return the number of records in flight in this state. Offsets reserved for gateways do not count."""
        batches = (b for b in self.batches if b.delivery_state is state and not is_reserved(state, b.delivery_count))
        return sum(b.last_offset - b.first_offset + 1 for b in batches)


class GroupView(NamedTuple):
    """A group as pages show it. Unknown values are None.

    `lag` is the sum of the known lags, `oldest_ms` the timestamp of the oldest unfinished record, and `acquired` the
    number of acquired records.
    """

    description: ShareGroupDescription
    cell: str
    partitions: tuple[PartitionView, ...]
    lag: int | None
    oldest_ms: int | None
    acquired: int
    configs: Mapping[str, str]


class Snapshot(NamedTuple):
    """A snapshot of all groups. `problems` are sentences about data that could not be read."""

    at_ms: int
    groups: Mapping[str, GroupView]
    problems: tuple[str, ...]


class Snapshots:
    """Takes snapshots on a thread, from the call of `start` to the call of `close`.

    Any thread may read `newest`, the last snapshot, and `history`, the lags in the last snapshots.
    `now_ms` returns the time in ms since 1970.
    """

    def __init__(
        self, config: Config, logs: Logs, now_ms: Callable[[], int] = lambda: round(time.time() * 1000)
    ) -> None:
        self._config, self._logs, self._now_ms = config, logs, now_ms
        self._cells = {cell: _Cell(config.for_cell(cell)) for cell in config.cells.names or (NO_CELL,)}
        self._written_ms: dict[tuple[Place, int], int | None] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self.history = LagHistory()
        self.newest = Snapshot(0, {}, ("the tables are being read",))

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._logs.close()

    def tables_of(self, group_id: str) -> CachedTables:
        return self._cells[self._config.cells.cell_of(group_id)].tables

    def all_tables(self) -> list[CachedTables]:
        """Return the tables of all cells."""
        return [cell.tables for cell in self._cells.values()]

    def take_snapshot(self) -> Snapshot:
        """Take a snapshot of all groups, store it as `newest`, and return it.

        If existing tables cannot be read, their last content is used. Missing tables count as empty. If log offsets
        cannot be read, they are None in the snapshot. Each of these cases adds a sentence to `problems`.
        """
        at_ms, problems = self._now_ms(), []
        for name, cell in self._cells.items():
            try:
                cell.read()
            except TableMissingError as error:
                cell.clear()
                problems.append(f"cell {name}: {error}" if name else str(error))
            except ShareGroupError as error:
                problems.append(f"cell {name}: {error}" if name else str(error))
        ends, problem = self._ends()
        problems += problem
        starts = {
            (place, start)
            for cell in self._cells.values()
            for place, start, lag in cell.starts(ends)
            if lag and place in ends
        }
        problems += self._read_timestamps(starts)
        groups = {
            group_id: group
            for name, cell in self._cells.items()
            for group_id, group in cell.groups(name, ends, self._written_ms)
            if self._config.cells.cell_of(group_id)
            == name  # a moved group may still be in the tables of its previous cell
        }
        self.newest = Snapshot(at_ms, dict(sorted(groups.items())), tuple(problems))
        self.history.add(at_ms, {name: group.lag for name, group in groups.items() if group.lag is not None})
        return self.newest

    def _ends(self) -> tuple[Mapping[Place, LogOffsets], list[str]]:
        places = {place for cell in self._cells.values() for place in cell.places()}
        try:
            return (self._logs.offsets(places) if places else {}), []
        except ShareGroupError as error:
            return {}, [str(error)]

    def _read_timestamps(self, starts: set[tuple[Place, int]]) -> list[str]:
        """Read and cache the timestamps of records. Return a sentence for each problem.

        `starts` are the (partition, offset) of these records. Timestamps that are cached already are not read again,
        and those of other records are removed from the cache. One call reads at most `_MAX_LOOKUPS` timestamps.
        """
        known = self._written_ms
        self._written_ms = {start: known[start] for start in starts if start in known}
        unknown: dict[Place, int] = {}
        for place, start in sorted(starts - known.keys()):
            if len(unknown) < _MAX_LOOKUPS:
                unknown.setdefault(place, start)
        try:
            found = self._logs.timestamps_ms(unknown) if unknown else {}
        except ShareGroupError as error:
            return [str(error)]
        self._written_ms |= {(place, start): found.get(place) for place, start in unknown.items()}
        return []

    def _run(self) -> None:
        while not self._ended.is_set():
            cpu_s = time.process_time()
            try:
                self.take_snapshot()
            except Exception:
                logger.exception("the snapshot of the tables failed; it will be retried")
                problem = "the last snapshot failed; see the log of the process of this page"
                self.newest = self.newest._replace(problems=(problem,))
            self._ended.wait(wait_s(time.process_time() - cpu_s))


def wait_s(cpu_s: float) -> float:
    """Return the wait in seconds after a snapshot that used `cpu_s` seconds of CPU time."""
    return max(INTERVAL_S, cpu_s * (1 / _SHARE - 1))


class _Cell:
    """One cell, with the content of its tables when they were last read."""

    def __init__(self, config: Config) -> None:
        self.tables = CachedTables(config.job.tables_path, config.job.delta_options)
        self.clear()

    def clear(self) -> None:
        """Discard the content, because the tables do not exist."""
        self._descriptions: Mapping[str, ShareGroupDescription] = {}
        self._configs: Mapping[str, Mapping[str, str]] = {}
        self._states: States = {}
        self._version: tuple[str, int] | None = None

    def read(self) -> None:
        """Read the changes since the last call. Raise TableUnavailableError if the tables cannot be read."""
        self._descriptions = read_group_descriptions(self.tables, [g.group_id for g in read_groups(self.tables)])
        self._configs = read_group_configs(self.tables)
        table = self.tables.open(SHARE_GROUP_STATE)
        version = str(table.metadata().id), table.version()
        if version != self._version:
            self._states = read_current_states(self.tables)
            self._version = version

    def places(self) -> Iterable[Place]:
        """Return the partitions (topic, number) that groups of this cell read."""
        return {(row.topic, row.partition) for group in self._descriptions.values() for row in group.share_partitions}

    def starts(self, ends: Mapping[Place, LogOffsets]) -> Iterable[tuple[Place, int, int | None]]:
        """Yield (partition, start offset, lag) of each share-partition that has a start offset.

        `ends` is {partition: start and end offset of its log}.
        """
        for group_id in self._descriptions:
            for row in self._partitions(group_id, ends, {}):
                if row.start_offset is not None:
                    yield (row.topic, row.partition), row.start_offset, row.lag

    def groups(
        self, cell: str, ends: Mapping[Place, LogOffsets], written_ms: Mapping[tuple[Place, int], int | None]
    ) -> Iterable[tuple[str, GroupView]]:
        """Yield (group id, group) for all groups of the cell.

        `ends` is {partition: start and end offset of its log}. `written_ms` is {(partition, start offset): timestamp of
        the record at this offset}.
        """
        for group_id, description in self._descriptions.items():
            rows = tuple(self._partitions(group_id, ends, written_ms))
            lags = [row.lag for row in rows if row.lag is not None]
            times = [row.oldest_ms for row in rows if row.oldest_ms is not None]
            yield (
                group_id,
                GroupView(
                    description,
                    cell,
                    rows,
                    sum(lags) if lags else None,
                    min(times, default=None),
                    sum(row.records(RecordState.ACQUIRED) for row in rows),
                    self._configs.get(group_id, {}),
                ),
            )

    def _partitions(
        self,
        group_id: str,
        ends: Mapping[Place, LogOffsets],
        written_ms: Mapping[tuple[Place, int], int | None],
    ) -> Iterable[PartitionView]:
        for row in self._descriptions[group_id].share_partitions:
            state = self._states.get(SharePartitionKey(group_id, row.topic, row.topic_id, row.partition))
            offset = share_partition_offset(row, state)
            place = row.topic, row.partition
            log = ends.get(place)
            start = offset.start_offset if offset.start_offset >= 0 else None
            lag = None
            if log is not None and start is not None and offset.delivery_complete_count >= 0:
                lag = max(0, log.end - start - offset.delivery_complete_count)
            is_current = state is not None and state.header.state_epoch >= row.state_epoch
            yield PartitionView(
                row.topic,
                row.topic_id,
                row.partition,
                start,
                log,
                lag,
                written_ms.get((place, start)) if start is not None else None,
                state.state_batches if state is not None and is_current else (),
            )
