"""What the `kafka_log_offsets` source says next: its decisions, apart from its waiting.

Everything that is not in the arguments comes through three protocols, so that the same decisions run beside Kafka and
Delta tables or in a simulation. There is no clock here: `now_ms` comes in. It is a steady time, which nobody sets, as a
topic's state may depend on how long its name stands for nothing; the brokers' time is in the hand-over.

A look costs what it is for: rows of `share_partitions` that changed, logs that somebody waits for, deadlines that are
over. What it compares with is in memory (`SourceKnowledge`); all that it says is in the offset that it gives.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sharegroup.config import GroupConfig
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.job.clock.hand_over import HandOver
from sharegroup.job.knowledge.listing import TopicIdPartition
from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.job.knowledge.source_knowledge import SourceKnowledge, waiting_key
from sharegroup.job.knowledge.source_offset import NOTHING_READ, SourceOffset
from sharegroup.job.logs.log_answers import LogAnswers, Logs
from sharegroup.job.logs.topic_identities import TopicIdentities
from sharegroup.job.planning.batch_rows import is_current
from sharegroup.job.planning.log_news import LogNews
from sharegroup.job.planning.source_look import SourceLook
from sharegroup.job.planning.source_tables import Configs, SourceTables
from sharegroup.job.planning.start_offsets import StartsByTime, can_start, start_offset, starts_by_time
from sharegroup.job.planning.stopped_groups import StoppedGroups
from sharegroup.job.planning.table_news import TableNews
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.storage.schemas import SHARE_GROUP_STATE
from sharegroup.types import LAST_ALTERED_MS, SharePartitionKey


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
        topics = TopicIdentities(logs.describe, settings.deletion_grace_ms)
        self._tables, self._answers = tables, LogAnswers(logs, topics)
        self._table_news = TableNews(tables, configs, settings.shards)
        self._log_news = LogNews(topics, self._answers, settings.poll_ms, settings.idle_poll_ms)
        self._stopped = StoppedGroups()
        self._known: SourceKnowledge | None = None

    def next(
        self, before: SourceOffset, told: HandOver, requested: Collection[str], safe_ms: int, now_ms: int
    ) -> SourceOffset | None:
        """The offset after `before`, None if nothing is new.

        `told` is what the driver says; `requested`: the ids of topics that unread requests are for, which somebody
        waits for; `safe_ms`: all requests appended before it, by the brokers' time, are read (0: not known).
        """
        # Where a look fails half-way, what it has learned was never said: the next one begins with the offset again.
        known, self._known = self._known, None
        if known is None or known.offset != before:
            version = before.partitions_version
            listed = () if version == NOTHING_READ else self._tables.share_partitions(version)
            known = SourceKnowledge.resumed(before, listed)
        after = self._look(SourceLook(known, told, requested, now_ms), safe_ms)
        known.offset = before if after is None else after
        self._known = known
        return after

    def _look(self, look: SourceLook, safe_ms: int) -> SourceOffset | None:
        known, before = look.known, look.known.offset
        version = self._table_news.take(look)
        moved = self._log_news.take(look)
        state_version = self._load(look)
        look.batch.unload(known.led, look.left)
        _tell_configs(look)
        _tell_logs(look, moved)
        position = replace(
            before,
            shards=known.led.shards,
            partitions_version=version,
            state_version=before.state_version if state_version is None else state_version,
            waiting=tuple(sorted(map(waiting_key, known.listing.to_lead(known.waiting)))),
            gone=tuple(sorted(known.gone)),
            clock_ms=_tick(look, safe_ms),
            rows=(),
        )
        # What many were told is not to be written again with each batch that brings only requests.
        is_news = look.batch.has_rows or position != replace(before, rows=()) or before.is_large
        return replace(position, seq=before.seq + 1, rows=look.batch.rows()) if is_news else None

    def _load(self, look: SourceLook) -> int | None:
        """Lead what can be led from now on; the version of the states to load it from, None if nothing is loaded.

        What has a state can, whether Kafka says how far its log reaches or not: acknowledgements wait for no leader.
        What has none waits for what its start offset depends on.
        """
        known, pending = look.known, look.pending
        if not pending:
            return None
        version: int | None = None
        states: Mapping[SharePartitionKey, ShareGroupOffset] = {}
        stopped = self._stopped.names(known)
        asked = {key: row for key, row in pending.items() if key.group_id not in stopped}
        if any(_needs_state(known, row) for row in asked.values()):
            version = self._tables.newest_version(SHARE_GROUP_STATE.name)
            states = self._tables.states(version, list(asked))  # of all: the rows are made of them next
            stopped |= self._stopped.find(asked.values(), states)
        pending = _without_groups(look, stopped)
        without = [row for row in pending.values() if not is_current(states.get(row.key), row.state_epoch)]
        starts = starts_by_time(known, self._answers, without, look.now_ms, look.told.brokers_ms(look.now_ms))
        waiting = {row.key: row.state_epoch for row in without if not can_start(known, row, starts)}
        look.left.update(key for key in waiting if known.led.leave(key))
        # All that waited before were pending.
        known.waiting = waiting | {key: row.state_epoch for key, row in look.pending.items() if key not in pending}
        loads = [row for key, row in pending.items() if key not in waiting]
        if not loads:
            return None
        _tell_loads(look, loads, starts)
        self._tell_fences(look, loads)
        return self._tables.newest_version(SHARE_GROUP_STATE.name) if version is None else version

    def _tell_fences(self, look: SourceLook, loads: Collection[SharePartitionRow]) -> None:
        """The operator may not know who was fenced in what it loads; of what is new there is nobody."""
        groups = {row.key.group_id for row in loads if not row.initializing}
        if not groups:
            return
        fences = self._tables.fences(groups)
        loading: dict[str, list[str]] = {group_id: [] for group_id in sorted(fences)}
        for shard_key in look.batch.loading if fences else ():
            if (group_id := ShardKey.decode(shard_key).group_id) in loading:
                loading[group_id].append(shard_key)
        for group_id, shard_keys in loading.items():
            look.batch.fence(fences[group_id], shard_keys)


def _needs_state(known: SourceKnowledge, row: SharePartitionRow) -> bool:
    """Return whether it depends on the share-partition's state what happens to it, and nobody has looked for it yet."""
    is_news = known.waiting.get(row.key) != row.state_epoch
    return not row.initializing or (is_news and not can_start(known, row, {}))


def _without_groups(look: SourceLook, stopped: Collection[str]) -> dict[SharePartitionKey, SharePartitionRow]:
    """Return the pending share-partitions of other groups than these; what is led of these is led no longer."""
    led = look.known.led
    if stopped:
        of_stopped = [key for key in list(led.keys()) if key.group_id in stopped]
        look.left.update(key for key in of_stopped if led.leave(key))
        look.pending.update((row.key, row) for row in look.known.listing.to_lead(of_stopped))
    return {key: row for key, row in look.pending.items() if key.group_id not in stopped}


def _tell_loads(look: SourceLook, loads: Collection[SharePartitionRow], starts: StartsByTime) -> None:
    known = look.known
    by_key = {row.key: row for row in loads}
    for shard_key, keys in known.led.by_shard(by_key).items():
        look.batch.load(shard_key, [_load(known, by_key[key], starts) for key in keys])
    for row in loads:
        known.led.lead(row)


def _load(known: SourceKnowledge, row: SharePartitionRow, starts: StartsByTime) -> dict[str, Any]:
    """`log` is null while it is not known: what is there can be acknowledged, nothing can be given out."""
    log = known.logs.offsets.get(TopicIdPartition.of(row.key))
    return {
        "topic": row.key.topic,
        "partition": row.key.partition,
        "state_epoch": row.state_epoch,
        "initializing": row.initializing,
        "log": None if log is None else log.dump(),
        "start_offset": start_offset(known, row, starts),
    }


def _tell_configs(look: SourceLook) -> None:
    """Configs come with each load of a shard, and again for every shard of a group whose config changed."""
    known = look.known
    shards = {shard_key: ShardKey.decode(shard_key).group_id for shard_key in look.batch.loading}
    for group_id in look.reconfigured:
        shards |= dict.fromkeys(known.led.shard_keys_of(group_id), group_id)
    same: dict[tuple[GroupConfig, int], list[str]] = {}
    for shard_key, group_id in sorted(shards.items()):
        told = known.configs.of(group_id), known.configs.last_altered_ms(group_id)
        same.setdefault(told, []).append(shard_key)
    for (config, altered_ms), shard_keys in same.items():
        last = {LAST_ALTERED_MS: altered_ms} if altered_ms else {}
        look.batch.configure(config.to_json() | last, shard_keys)


def _tell_logs(look: SourceLook, moved: Collection[TopicIdPartition]) -> None:
    """What is loaded in the same batch is told with its load."""
    known = look.known
    logs: dict[str, list[list[Any]]] = {}
    for log in sorted(moved):
        for key in known.listing.keys_of(log):
            if key in known.led and key not in look.pending:
                logs.setdefault(known.led.shard_key(key), []).append([log.partition, *known.logs.offsets[log].dump()])
    look.batch.move_logs(logs)


def _tick(look: SourceLook, safe_ms: int) -> int:
    """Tick the keys whose deadline is before the safe time, and after a start every key once; the time of the last
    ticks."""
    known = look.known
    due = set(look.told.deadlines.due(safe_ms))
    if not known.ticked_all and safe_ms:
        known.ticked_all = True
        due.update(known.led.shard_keys())
    clock_ms = safe_ms if due else known.offset.clock_ms
    look.batch.tick(clock_ms, due)
    return clock_ms
