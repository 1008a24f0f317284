"""The job's two sources over the simulated Kafka and tables. The real readers and planner make all decisions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kafka.errors import KafkaError

from sharegroup.config import Config
from sharegroup.job.clock.handover import Handover, HandoverChange
from sharegroup.job.clock.request_clock import RequestClock
from sharegroup.job.clock.unread_requests import NO_DEMANDS
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.job.planning.log_offsets_planner import LogOffsetsPlanner, PlannerSettings
from sharegroup.spark.queries import log_offsets_source, share_groups_source
from sharegroup.spark.queries.log_offsets_source import LogOffsetsReader
from sharegroup.spark.queries.share_groups_source import ShareGroupsReader
from sharegroup.storage.following.config_poll import ConfigPoll, file_values
from sharegroup.storage.following.pinned_groups import PinnedGroups
from sharegroup.storage.following.pinned_tables import PinnedTables
from sharegroup.storage.following.rows_by_file import TableFiles
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES, SHARE_GROUP_CONFIGS, SHARE_PARTITIONS
from sharegroup.types import WaitsFor
from tests.simulation.brokers.kafka_log import SimulatedKafka
from tests.simulation.job.simulated_tables import SimulatedTables
from tests.simulation.virtual_clock import Scheduler


class VirtualTime:
    """The parts of `time` that the readers' modules use, as a replacement during a run."""

    def __init__(self, clock: Scheduler) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        """Return the seconds since some moment."""
        return self._clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        """Do nothing, because a waiting source is called again later."""


def use_virtual_time(clock: Scheduler) -> None:
    """Let the readers' modules use `clock`."""
    from sharegroup.job.clock import request_clock

    for module in (log_offsets_source, share_groups_source, request_clock):
        module.time = VirtualTime(clock)  # type: ignore[attr-defined]


class _Clock(RequestClock):
    """A clock that never waits, because the simulation calls the source again when something has changed."""

    def __init__(self, kafka: SimulatedKafka, poll: LogPoll, topic: str, idle_poll_ms: int) -> None:
        super().__init__(poll, topic, idle_poll_ms)
        self._kafka = kafka

    def wait(self, positions: Mapping[int, int], timeout_ms: int, waiting: Mapping[str, WaitsFor] = NO_DEMANDS) -> bool:
        """Return without waiting."""
        return False

    def is_due(self, positions: Mapping[int, int], waiting: Mapping[str, WaitsFor] = NO_DEMANDS) -> bool:
        """Return whether there are requests. None lingers; all are seen whose leaders respond."""
        reads = self._read(positions)
        for _, partition in self._partitions:
            with contextlib.suppress(KafkaError):
                records = self._kafka.log(self._topic, partition).committed(reads[partition])
                self._unread.add((record.value for _, record in records), waiting, 0)
        return True

    def _empty_up_to(self, positions: Mapping[int, int], partitions: Collection[int]) -> dict[int, int]:
        """Return the partitions without a committed row after the position, with their last stable offsets."""
        reads, empty = self._read(positions), {}
        for partition in partitions:
            with contextlib.suppress(KafkaError):
                log = self._kafka.log(self._topic, partition)
                if next(log.committed(reads[partition]), None) is None:
                    empty[partition] = max(reads[partition], log.last_stable_offset)
        return empty


class _Pinned(PinnedTables):
    def __init__(self, tables: SimulatedTables) -> None:
        super().__init__({}, {}, tables.bases)
        self._memory = tables

    def _open(self, table: str, version: int | None) -> Any:
        return self._memory.pinned(table, version)

    def _files(self, table: Any) -> TableFiles:
        return self._memory.files(SHARE_PARTITIONS, table.version())


class Configs(ConfigPoll):
    """The configs of the table in memory."""

    def __init__(self, config: Config, tables: SimulatedTables) -> None:
        super().__init__(file_values(config), "", {})
        self._memory = tables

    def _newest(self) -> tuple[int, TableFiles]:
        return self._memory.newest_version(SHARE_GROUP_CONFIGS), self._memory.files(SHARE_GROUP_CONFIGS)


class _HandOver:
    """The handover from a query to its source, instead of `hand_over_file`."""

    def __init__(self) -> None:
        self._told = Handover()

    def write(self, change: HandoverChange) -> None:
        """Apply a change."""
        self._told.apply(change)

    def read(self) -> Handover:
        """Return the present content."""
        return self._told


class LogOffsets(LogOffsetsReader):
    """`kafka_log_offsets` of one start of the query; `local_ms` is the machine's steady clock."""

    def __init__(
        self,
        kafka: SimulatedKafka,
        tables: SimulatedTables,
        config: Config,
        hand_over: _HandOver,
        poll: LogPoll,
        local_ms: Callable[[], int],
    ) -> None:
        job, self._local_ms = config.job, local_ms
        self._options = {"poll_ms": job.log_poll_interval_ms, "block_ms": 0}
        self._tables = _Pinned(tables)
        self._handover = hand_over  # type: ignore[assignment]
        settings = PlannerSettings(
            job.operator_shards, job.log_poll_interval_ms, job.log_idle_poll_interval_ms, job.topic_deletion_grace_ms
        )
        self._planner = LogOffsetsPlanner(self._tables, poll, Configs(config, tables), settings)
        self._clock = _Clock(kafka, poll, job.partition_requests_topic, job.log_idle_poll_interval_ms)
        self._last = None

    def initial(self) -> Any:
        return self.initialOffset()

    def again(self, start: Any, end: Any) -> Iterable[tuple[str, str]]:
        """Return the rows again, with offsets that passed through JSON as in Spark's log."""
        return list(self.readBetweenOffsets(json.loads(json.dumps(start)), json.loads(json.dumps(end))))


class _PinnedGroups(PinnedGroups):
    """The groups of the tables in memory."""

    def __init__(self, tables: SimulatedTables) -> None:
        super().__init__({spec.name: "" for spec in GROUP_COORDINATOR_TABLES}, {})
        self._memory = tables

    def _open(self, table: str, version: int | None) -> Any:
        return self._memory.pinned(table, version)


class GroupTicks(ShareGroupsReader):
    """`share_groups_ticks` of one start of the query; `local_ms` is the machine's steady clock."""

    def __init__(
        self,
        kafka: SimulatedKafka,
        tables: SimulatedTables,
        config: Config,
        hand_over: _HandOver,
        poll: LogPoll,
        local_ms: Callable[[], int],
    ) -> None:
        job, self._local_ms = config.job, local_ms
        self._tables = _PinnedGroups(tables)
        self._options = {"block_ms": 0}
        self._handover = hand_over  # type: ignore[assignment]
        self._clock = _Clock(kafka, poll, job.group_requests_topic, job.log_idle_poll_interval_ms)
        self._ticked_all = False

    def initial(self) -> Any:
        return self.initialOffset()

    def again(self, start: Any, end: Any) -> Iterable[tuple[str, str]]:
        """Return the rows between two offsets again."""
        return list(self.readBetweenOffsets(start, end))


def hand_over() -> _HandOver:
    """Return an empty handover in memory."""
    return _HandOver()
