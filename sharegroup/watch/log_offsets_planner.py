"""What the `kafka_log_offsets` source says next: its decisions, apart from its waiting.

Everything that is not in the arguments comes through three protocols, so that the same decisions run beside Kafka and
Delta tables or in a simulation. There is no clock here: `now_ms` comes in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sharegroup.config import IsolationLevel, OffsetResetStrategy
from sharegroup.engine.log_offsets import LogOffsets
from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.tables.schemas import SHARE_GROUP_STATE, SHARE_PARTITIONS
from sharegroup.tables.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey
from sharegroup.watch.hand_over import HandOver
from sharegroup.watch.log_answers import LogAnswers, Logs, topic_partition
from sharegroup.watch.log_offsets_plan import (
    NOTHING_READ,
    SourceOffset,
    TableReaders,
    is_current,
    led,
    start_key,
    to_lead,
    to_load,
)
from sharegroup.watch.shard_keys import ShardKey
from sharegroup.watch.topic_identities import TopicIdentities


class SourceTables(Protocol):
    """The Delta tables: see `PinnedTables`."""

    def newest_version(self, table: str) -> int:
        """The table's version now."""

    def share_partitions(self, version: int) -> Collection[SharePartitionRow]:
        """The share-partitions, at a version."""

    def states(self, version: int, keys: Collection[SharePartitionKey]) -> Mapping[SharePartitionKey, ShareGroupOffset]:
        """The folded states of those of these share-partitions that have one, at a version."""


class Configs(Protocol):
    """The groups' configs: see `ConfigPoll`."""

    def in_force(self, now_ms: int, fresh: bool = False) -> Mapping[str, Mapping[str, Any]]:
        """Each configured group's values, and "" for every other group's; `fresh`: as they are at this very moment."""


@dataclass(frozen=True)
class PlannerSettings:
    """`shards`: `operator.shards`; the intervals are those of the job's config, in ms."""

    shards: int
    poll_ms: int
    idle_poll_ms: int
    deletion_grace_ms: int


class LogOffsetsPlanner:
    """Decides the source's next offset from what it looks up. One lives as long as the source's process; what it
    remembers may be lost at any time."""

    def __init__(self, tables: SourceTables, logs: Logs, configs: Configs, settings: PlannerSettings) -> None:
        self._tables, self._configs, self._settings = tables, configs, settings
        self._reads = TableReaders(tables.share_partitions, tables.states)
        self._topics = TopicIdentities(logs.describe, settings.deletion_grace_ms)
        self._answers = LogAnswers(logs, self._topics)
        self._polled_ms = {"log": 0, "waiting": 0}
        self._ticked_all = False
        self._listed: tuple[int, frozenset[tuple[str, str]]] = NOTHING_READ, frozenset()

    def next(
        self, before: SourceOffset, told: HandOver, requested: bool, safe_ms: int, now_ms: int
    ) -> SourceOffset | None:
        """The offset after `before`, None if nothing is new.

        `told` is what the driver says; `requested`: somebody waits for requests that are not read yet; `safe_ms`: all
        requests appended before it are read (0: not known).
        """
        before = replace(before, tick_keys=())
        after = self._with_tables(before, now_ms)
        rows = to_lead(after, self._reads)
        topics = self._topics_of(after.partitions_version, rows)
        self._topics.look([topic for topic in topics if topic[1] not in before.gone], now_ms)
        after = self._with_log(before, after, rows, told, requested, now_ms)
        gone = {id_ for name, id_ in topics if id_ in before.gone or self._topics.is_gone(name, id_)}
        after = replace(after, gone=tuple(sorted(gone)))
        after = self._with_loads(before, after, rows, now_ms)
        after = self._with_ticks(after, told, safe_ms)
        return None if after == before else replace(after, seq=before.seq + 1)

    def _topics_of(self, version: int, rows: Iterable[SharePartitionRow]) -> Collection[tuple[str, str]]:
        """The (name, id) of all topics that are to be led, which are the same in a version of the table."""
        if self._listed[0] != version:
            self._listed = version, frozenset((row.key.topic, row.key.topic_id) for row in rows)
        return self._listed[1]

    # -- the tables ------------------------------------------------------------------------------------------------

    def _with_tables(self, before: SourceOffset, now_ms: int) -> SourceOffset:
        """The configs are read after the share-partitions, and at this very moment if they may be said to a shard: so
        they are not older than any `configure` that the batches before have read."""
        version = self._tables.newest_version(SHARE_PARTITIONS.name)
        shards = self._settings.shards
        is_fresh = (version, shards) != (before.partitions_version, before.shards) or bool(before.waiting)
        configs = self._configs.in_force(now_ms, is_fresh)
        if not is_fresh and configs != before.configs:
            configs = self._configs.in_force(now_ms, fresh=True)
        return replace(before, partitions_version=version, shards=shards, configs=configs)

    def _with_loads(
        self, before: SourceOffset, after: SourceOffset, rows: Collection[SharePartitionRow], now_ms: int
    ) -> SourceOffset:
        """Which share-partitions are led from now on, and the state to load them from.

        Those with a state are, whether Kafka says how far their logs reach or not: acknowledgements wait for no leader.
        One without waits for what its start offset depends on.
        """
        was, is_ = ((offset.partitions_version, offset.shards, offset.gone) for offset in (before, after))
        if was == is_ and not before.waiting:
            return after
        known = led(before, self._reads)
        new = [row for row in rows if row.key.topic_id not in after.gone and not _is_led(row, known)]
        version = -1
        unread = [row for row in new if not _can_start(after, row) and start_key(row) not in before.waiting]
        states: Mapping[SharePartitionKey, ShareGroupOffset] = {}
        if unread:
            version = self._tables.newest_version(SHARE_GROUP_STATE.name)
            states = self._tables.states(version, [row.key for row in new])  # of all: the rows are made of them next
        without = [row for row in new if not is_current(states.get(row.key), row)]
        after = replace(after, starts=self._starts_by_time(after, rows, without, now_ms))
        waiting = sorted(start_key(row) for row in without if not _can_start(after, row))
        after = replace(after, waiting=tuple(waiting))
        if to_load(before, after, self._reads):
            version = self._tables.newest_version(SHARE_GROUP_STATE.name) if version < 0 else version
            after = replace(after, state_version=version)
        return after

    # -- the logs --------------------------------------------------------------------------------------------------

    def _with_log(
        self,
        before: SourceOffset,
        offset: SourceOffset,
        rows: Collection[SharePartitionRow],
        told: HandOver,
        requested: bool,
        now_ms: int,
    ) -> SourceOffset:
        """Poll the logs: all when idle for long or asked for, those with waiting members often, new ones at once."""
        idle = self._is_due("log", now_ms, self._settings.idle_poll_ms)
        often = self._is_due("waiting", now_ms, self._settings.poll_ms)
        waiting = {ShardKey.decode(key)[:2] for key in told.waiting} if often else set()
        # A share-partition that is new starts at its log's end or start as it is now, also in a topic that others read
        # already. And of a group whose config changed, another end may be asked for.
        begins = offset.partitions_version != before.partitions_version
        news = begins or offset.configs != before.configs
        wanted = [
            row
            for row in rows
            if row.key.topic_id not in before.gone
            and (idle or requested or news or (row.key.group_id, row.key.topic_id) in waiting or not _log(offset, row))
        ]
        if not wanted and not begins:
            return offset
        listed = {row.key.topic_id for row in rows}
        log = {topic_id: dict(partitions) for topic_id, partitions in offset.log.items() if topic_id in listed}
        committed = {row.key.topic for row in rows if _reads_committed(offset, row.key.group_id)}
        found = self._answers.log_offsets(offset, wanted, committed, idle or begins, now_ms) if wanted else {}
        for row in wanted:
            offsets = found.get(topic_partition(row.key))
            if offsets is not None and self._topics.stands_for(row.key.topic, row.key.topic_id):
                # A name that had stood for no topic when they were asked for stands for this one since they were.
                offsets = offsets._replace(has_topic_id=self._topics.has_id(row.key.topic))
                log.setdefault(row.key.topic_id, {})[str(row.key.partition)] = offsets
        return replace(offset, log=log)

    def _starts_by_time(
        self,
        offset: SourceOffset,
        listed: Collection[SharePartitionRow],
        new: Collection[SharePartitionRow],
        now_ms: int,
    ) -> Mapping[str, int]:
        """Look up, once, the start offsets of those that begin by_duration; those of what is gone are dropped."""
        starts = {start_key(row): offset.starts[start_key(row)] for row in listed if start_key(row) in offset.starts}
        wanted: dict[int, list[SharePartitionRow]] = {}
        for row in new:
            reset = offset.reset_of(row)
            by_time = row.start_offset < 0 and reset.strategy is OffsetResetStrategy.BY_DURATION
            if by_time and _log(offset, row) is not None and start_key(row) not in starts:
                wanted.setdefault(reset.duration_ms or 0, []).append(row)
        for duration_ms, of_duration in wanted.items():
            time_ms = max(0, now_ms - duration_ms)  # no record is older than 1970
            found = self._answers.offsets_at({topic_partition(row.key) for row in of_duration}, time_ms, now_ms)
            for row in of_duration:
                log = _log(offset, row)
                if log is not None and topic_partition(row.key) in found:
                    first = found[topic_partition(row.key)]
                    starts[start_key(row)] = log.log_end_offset if first is None else first
        return starts

    # -- ticks -----------------------------------------------------------------------------------------------------

    def _with_ticks(self, offset: SourceOffset, told: HandOver, safe_ms: int) -> SourceOffset:
        """Tick the keys whose deadline is before the safe time, and after a start every key once."""
        due = {key for key, deadline in told.deadlines.items() if deadline < safe_ms}
        if not self._ticked_all and safe_ms:
            self._ticked_all = True
            due |= {offset.shard_key(key) for key in led(offset, self._reads)}
        if not due:
            return offset
        return replace(offset, tick_keys=tuple(sorted(due)), clock_ms=max(safe_ms, offset.clock_ms))

    def _is_due(self, what: str, now_ms: int, interval_ms: int) -> bool:
        due = now_ms - self._polled_ms[what] >= interval_ms
        if due:
            self._polled_ms[what] = now_ms
        return due


def _is_led(row: SharePartitionRow, known: Mapping[SharePartitionKey, SharePartitionRow]) -> bool:
    return row.key in known and row.state_epoch <= known[row.key].state_epoch


def _can_start(offset: SourceOffset, row: SharePartitionRow) -> bool:
    """Whether it is known where the share-partition starts, should it have no state."""
    if row.start_offset >= 0:
        return True
    by_time = offset.reset_of(row).strategy is OffsetResetStrategy.BY_DURATION
    return _log(offset, row) is not None and (not by_time or start_key(row) in offset.starts)


def _reads_committed(offset: SourceOffset, group_id: str) -> bool:
    return offset.config(group_id).isolation_level is IsolationLevel.READ_COMMITTED


def _log(offset: SourceOffset, row: SharePartitionRow) -> LogOffsets | None:
    return offset.offsets_of(row.key)
