"""Decides which rows the `kafka_log_offsets` source sends next. The source itself waits and reads the clock.

Apart from the arguments of `LogOffsetsPlanner.next_offset`, all input comes through three protocols: `SourceTables`,
`Logs` and `GroupConfigSource`. The same decisions therefore run with Kafka and Delta tables or in a simulation.
`now_ms` is the time of a monotonic clock. The detection of deleted topics requires such a clock, because it depends on
how long a name refers to no topic. The brokers' time comes from the `Handover`, the data that the query passes to this
source.

The cost of most polls depends only on the changed rows of `share_partitions`, the logs from which a member waits for
records, and the expired deadlines. Only a poll at the longer interval (`idle_poll_ms`) requests the offsets of all
logs. What the source sent before is kept in memory (`SourceState`). Everything that is sent is in the returned offset.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sharegroup.config import GroupConfig
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.job.clock.handover import Handover
from sharegroup.job.knowledge.listing import TopicIdPartition
from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.job.knowledge.source_offset import NOTHING_READ, SourceOffset
from sharegroup.job.knowledge.source_state import SourceState, waiting_key
from sharegroup.job.logs.log_offset_queries import LogOffsetQueries, Logs
from sharegroup.job.logs.topic_identities import TopicIdentities
from sharegroup.job.planning.batch_rows import is_current
from sharegroup.job.planning.log_changes import LogChanges
from sharegroup.job.planning.source_poll import SourcePoll
from sharegroup.job.planning.source_tables import GroupConfigSource, SourceTables
from sharegroup.job.planning.start_offsets import StartsByTime, can_start, fetch_starts_by_time, start_offset
from sharegroup.job.planning.stopped_groups import StoppedGroups
from sharegroup.job.planning.table_changes import TableChanges
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.storage.schemas import SHARE_GROUP_STATE
from sharegroup.types import LAST_ALTERED_MS, SharePartitionKey


@dataclass(frozen=True)
class PlannerSettings:
    """Settings of the planner, from the job's config. Times are in ms.

    `shards` is `operator.shards`. `poll_ms` and `idle_poll_ms` are the poll intervals of `LogChanges`.
    `deletion_grace_ms` is `topic.deletion.grace.ms`.
    """

    shards: int
    poll_ms: int
    idle_poll_ms: int
    deletion_grace_ms: int


class LogOffsetsPlanner:
    """Decides the source's next offset. A process has one planner; a new planner restores its state from the offset."""

    def __init__(self, tables: SourceTables, logs: Logs, configs: GroupConfigSource, settings: PlannerSettings) -> None:
        topics = TopicIdentities(logs.describe, settings.deletion_grace_ms)
        self._tables, self._queries = tables, LogOffsetQueries(logs, topics)
        self._table_changes = TableChanges(tables, configs)
        self._log_changes = LogChanges(topics, self._queries, settings.poll_ms, settings.idle_poll_ms)
        self._stopped = StoppedGroups()
        self._shards = settings.shards
        self._known: SourceState | None = None

    def next_offset(
        self, before: SourceOffset, handover: Handover, requested: Collection[str], safe_ms: int, now_ms: int
    ) -> SourceOffset | None:
        """Return the offset after `before`; None if nothing has changed.

        `handover` comes from the driver. `requested` has the ids of the topics that unread requests concern. The
        offsets of these topics' logs are requested now, because members may wait for records. `safe_ms` is a time of
        the brokers' clocks before which every appended request has been read; 0 if no such time is known.
        """
        # If a poll fails half-way, its results were never sent, so the next one restores the state from the offset.
        known, self._known = self._known, None
        if known is None or known.offset != before:
            version = before.partitions_version
            listed = () if version == NOTHING_READ else self._tables.share_partitions(version)
            known = SourceState.resume(before, listed, self._shards)
        after = self._poll(SourcePoll(known, handover, requested, now_ms), safe_ms)
        known.offset = before if after is None else after
        self._known = known
        return after

    def _poll(self, poll: SourcePoll, safe_ms: int) -> SourceOffset | None:
        known, before = poll.known, poll.known.offset
        version = self._table_changes.poll(poll)
        moved = self._log_changes.poll(poll)
        state_version = self._load(poll)
        poll.batch.add_unload(known.managed, poll.removed)
        _add_configs(poll)
        _add_logs(poll, moved)
        position = replace(
            before,
            shards=self._shards,
            partitions_version=version,
            state_version=before.state_version if state_version is None else state_version,
            waiting=tuple(sorted(map(waiting_key, known.listing.manageable_rows(known.waiting)))),
            gone=tuple(sorted(known.gone)),
            clock_ms=_tick(poll, safe_ms),
            rows=(),
        )
        # Large rows must not be written again with each batch that has only requests.
        has_changed = poll.batch.has_rows or position != replace(before, rows=()) or before.is_large
        return replace(position, seq=before.seq + 1, rows=poll.batch.rows()) if has_changed else None

    def _load(self, poll: SourcePoll) -> int | None:
        """Load the share-partitions that can be managed now, and return the version of `share_group_state` to read.

        A share-partition with a state is loaded even if its log offsets are unknown, so that acknowledgements do not
        wait for a leader. A new share-partition has no state, and is loaded when its start offset can be computed. If
        the state of any other share-partition is missing, its group is stopped (`stopped_groups`). The result is None
        if nothing is loaded.
        """
        known, pending = poll.known, poll.pending
        if not pending:
            return None
        version: int | None = None
        states: Mapping[SharePartitionKey, ShareGroupOffset] = {}
        stopped = self._stopped.get_stopped(known)
        asked = {key: row for key, row in pending.items() if key.group_id not in stopped}
        if any(_needs_state(known, row) for row in asked.values()):
            version = self._tables.newest_version(SHARE_GROUP_STATE.name)
            states = self._tables.states(version, list(asked))  # of all of them, because the rows need them next
            stopped |= self._stopped.stop_groups_without_state(asked.values(), states)
        pending = _without_groups(poll, stopped)
        without = [row for row in pending.values() if not is_current(states.get(row.key), row.state_epoch)]
        starts = fetch_starts_by_time(known, self._queries, without, poll.now_ms, poll.handover.brokers_ms(poll.now_ms))
        waiting = {row.key: row.state_epoch for row in without if not can_start(known, row, starts)}
        poll.removed.update(key for key in waiting if known.managed.remove(key))
        # All share-partitions that waited before were pending.
        known.waiting = waiting | {key: row.state_epoch for key, row in poll.pending.items() if key not in pending}
        loads = [row for key, row in pending.items() if key not in waiting]
        if not loads:
            return None
        _add_loads(poll, loads, starts)
        self._add_fences(poll, loads)
        return self._tables.newest_version(SHARE_GROUP_STATE.name) if version is None else version

    def _add_fences(self, poll: SourcePoll, loads: Collection[SharePartitionRow]) -> None:
        """Send fences (the current processes of members) to the shards that load a share-partition of their group.

        These shards may not have the fences yet. A new share-partition needs none, because it has had no members
        before.
        """
        groups = {row.key.group_id for row in loads if not row.initializing}
        if not groups:
            return
        fences = self._tables.fences(groups)
        loading: dict[str, list[str]] = {group_id: [] for group_id in sorted(fences)}
        for shard_key in poll.batch.loading if fences else ():
            if (group_id := ShardKey.decode(shard_key).group_id) in loading:
                loading[group_id].append(shard_key)
        for group_id, shard_keys in loading.items():
            poll.batch.add_fences(fences[group_id], shard_keys)


def _needs_state(known: SourceState, row: SharePartitionRow) -> bool:
    """Return whether the share-partition's state must be read to decide whether it can be loaded."""
    has_changed = known.waiting.get(row.key) != row.state_epoch
    return not row.initializing or (has_changed and not can_start(known, row, {}))


def _without_groups(poll: SourcePoll, stopped: Collection[str]) -> dict[SharePartitionKey, SharePartitionRow]:
    """Stop managing the share-partitions of the stopped groups; return the pending rows of all other groups."""
    managed = poll.known.managed
    if stopped:
        of_stopped = [key for key in list(managed.keys()) if key.group_id in stopped]
        poll.removed.update(key for key in of_stopped if managed.remove(key))
        poll.pending.update((row.key, row) for row in poll.known.listing.manageable_rows(of_stopped))
    return {key: row for key, row in poll.pending.items() if key.group_id not in stopped}


def _add_loads(poll: SourcePoll, loads: Collection[SharePartitionRow], starts: StartsByTime) -> None:
    known = poll.known
    by_key = {row.key: row for row in loads}
    for shard_key, keys in known.managed.by_shard(by_key).items():
        poll.batch.add_loads(shard_key, [_load(known, by_key[key], starts) for key in keys])
    for row in loads:
        known.managed.add(row)


def _load(known: SourceState, row: SharePartitionRow, starts: StartsByTime) -> dict[str, Any]:
    """Return a load row. While its field `log` is null (not known), records can be acknowledged, but not acquired."""
    log = known.logs.offsets.get(TopicIdPartition.for_key(row.key))
    return {
        "topic": row.key.topic,
        "partition": row.key.partition,
        "state_epoch": row.state_epoch,
        "initializing": row.initializing,
        "log": None if log is None else log.dump(),
        "start_offset": start_offset(known, row, starts),
    }


def _add_configs(poll: SourcePoll) -> None:
    """Add the configs for shards that load share-partitions, and for all shards of groups whose config has changed."""
    known = poll.known
    shards = {shard_key: ShardKey.decode(shard_key).group_id for shard_key in poll.batch.loading}
    for group_id in poll.reconfigured:
        shards |= dict.fromkeys(known.managed.shard_keys_of(group_id), group_id)
    same: dict[tuple[GroupConfig, int], list[str]] = {}
    for shard_key, group_id in sorted(shards.items()):
        sent = known.configs.get(group_id), known.configs.last_altered_ms(group_id)
        same.setdefault(sent, []).append(shard_key)
    for (config, altered_ms), shard_keys in same.items():
        last = {LAST_ALTERED_MS: altered_ms} if altered_ms else {}
        poll.batch.add_config(config.to_json() | last, shard_keys)


def _add_logs(poll: SourcePoll, moved: Collection[TopicIdPartition]) -> None:
    """Send changed log offsets to the shards of share-partitions that are already managed.

    If a share-partition is loaded in this batch, its load row contains the log offsets.
    """
    known = poll.known
    logs: dict[str, list[list[Any]]] = {}
    for log in sorted(moved):
        for key in known.listing.keys_of(log):
            if key in known.managed and key not in poll.pending:
                logs.setdefault(known.managed.shard_key(key), []).append(
                    [log.partition, *known.logs.offsets[log].dump()]
                )
    poll.batch.add_log_offsets(logs)


def _tick(poll: SourcePoll, safe_ms: int) -> int:
    """Add ticks for the keys whose deadline is before the safe time; return the time of the newest ticks.

    After a start, every key gets one tick. If no key gets a tick in this poll, the result is the time of earlier ticks.
    Also add the gateways whose leases ended before the safe time, so that the operator ends their reservations.
    """
    known = poll.known
    poll.batch.add_ended_leases(poll.handover.leases.over_at(safe_ms))
    due = set(poll.handover.deadlines.due_keys(safe_ms))
    if not known.ticked_all and safe_ms:
        known.ticked_all = True
        due.update(known.managed.shard_keys())
    clock_ms = safe_ms if due else known.offset.clock_ms
    poll.batch.add_tick(clock_ms, due)
    return clock_ms
