"""From two offsets of the `kafka_log_offsets` source to its rows: the same rows in every run, whatever "now" is.

An offset pins all that its rows depend on: the versions of the two Delta tables, the log offsets of the topics, the
start offsets that a clock decided (by_duration), the groups' configs, the shard count, and the keys to tick with the
clock to tick them at. So a batch of the offset log can be run again on an executor, days later.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from sharegroup.config import GroupConfig, IsolationLevel, OffsetResetStrategy
from sharegroup.engine import rows
from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.spark.shard_keys import ShardKey
from sharegroup.types import SharePartitionKey

#: The version of a table before anything was read from it.
NOTHING_READ = -1


class LogOffsets(NamedTuple):
    """A topic partition's log: first offset, end (exclusive), last stable offset (the end, where nobody asked for
    it)."""

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int


class SharePartitionRow(NamedTuple):
    """A row of the `share_partitions` table: to be led, or its state to be deleted."""

    key: SharePartitionKey
    topic_id: str
    initializing: bool
    state_epoch: int
    start_offset: int
    deleting: bool = False


@dataclass(frozen=True)
class SourceOffset:
    """The source's offset JSON. `log` maps topic -> partition -> offsets; `configs` maps group -> config, "" the
    default.

    `starts` holds start offsets looked up by time, by share-partition and epoch; `tick_keys` are ticked at `clock_ms`.
    """

    seq: int = 0
    shards: int = 0
    partitions_version: int = NOTHING_READ
    state_version: int = NOTHING_READ
    log: Mapping[str, Mapping[str, LogOffsets]] = field(default_factory=dict)
    starts: Mapping[str, int] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    clock_ms: int = 0
    tick_keys: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The dict that Spark writes into its offset log."""
        row = asdict(self)
        row["log"] = {topic: {p: list(offsets) for p, offsets in log.items()} for topic, log in self.log.items()}
        row["tick_keys"] = list(self.tick_keys)
        return row

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> SourceOffset:
        """The inverse of `to_json`."""
        log = {topic: {p: LogOffsets(*offsets) for p, offsets in log.items()} for topic, log in row["log"].items()}
        return cls(**{**row, "log": log, "tick_keys": tuple(row["tick_keys"])})

    def offsets_of(self, topic: str, partition: int) -> LogOffsets | None:
        """The log offsets of a topic partition, None while they are not known."""
        return self.log.get(topic, {}).get(str(partition))

    def config(self, group_id: str) -> GroupConfig:
        """The group's config in force."""
        return _parse_config(json.dumps(self.configs.get(group_id) or self.configs.get("") or {}, sort_keys=True))

    def shard_key(self, key: SharePartitionKey) -> str:
        """The operator key that leads the share-partition."""
        return ShardKey(key.group_id, key.topic, key.partition % self.shards).encode()


@functools.lru_cache(maxsize=256)
def _parse_config(text: str) -> GroupConfig:
    return GroupConfig.from_json(json.loads(text))


def start_key(row: SharePartitionRow) -> str:
    """The key of `SourceOffset.starts`: one that is made anew starts anew, by the time of then."""
    return f"{row.key.group_id}\t{row.key.topic}\t{row.key.partition}\t{row.state_epoch}"


@dataclass(frozen=True)
class Tables:
    """Reads of the pinned versions: the share-partitions, and the folded states of some of them."""

    share_partitions: Callable[[int], Collection[SharePartitionRow]]
    states: Callable[[int, Collection[SharePartitionKey]], Mapping[SharePartitionKey, ShareGroupOffset]]


def to_lead(offset: SourceOffset, tables: Tables) -> list[SharePartitionRow]:
    """The share-partitions in the table that are not being deleted."""
    return [row for row in _listed(offset, tables) if not row.deleting]


def led(offset: SourceOffset, tables: Tables) -> dict[SharePartitionKey, SharePartitionRow]:
    """The share-partitions that an offset leads: those to lead whose log offsets are known, and where they start."""
    rows = to_lead(offset, tables)
    by_time = {
        group_id
        for group_id in {row.key.group_id for row in rows}
        if offset.config(group_id).auto_offset_reset.strategy is OffsetResetStrategy.BY_DURATION
    }
    return {
        row.key: row
        for row in rows
        if offset.offsets_of(row.key.topic, row.key.partition) is not None
        and (row.key.group_id not in by_time or row.start_offset >= 0 or start_key(row) in offset.starts)
    }


def _listed(offset: SourceOffset, tables: Tables) -> Collection[SharePartitionRow]:
    return () if offset.partitions_version == NOTHING_READ else tables.share_partitions(offset.partitions_version)


def may_load(start: SourceOffset, end: SourceOffset) -> bool:
    """Whether the batch from `start` to `end` may load a share-partition: `end` must then pin the newest state.

    An older one would be wrong for a share-partition that was led in between (the shard count changed), and may be
    gone for one whose topic was away for days.
    """
    return (
        start.partitions_version != end.partitions_version
        or start.shards != end.shards
        or start.starts.keys() != end.starts.keys()
        or any(log.keys() != start.log.get(topic, {}).keys() for topic, log in end.log.items())
    )


def rows_between(start: SourceOffset, end: SourceOffset, tables: Tables) -> Iterator[tuple[str, str]]:
    """The (shard key, row) pairs of the batch from `start` to `end`, in a fixed order."""
    if start == end:
        return
    before, after = led(start, tables), led(end, tables)
    resharded = bool(before) and start.shards != end.shards
    deletions = _deletions(start, end, tables)
    gone = [key for key in before if resharded or (key not in after and key not in deletions)]
    new = [
        row for key, row in after.items() if resharded or key not in before or row.state_epoch > before[key].state_epoch
    ]
    yield from _unload_rows(start, gone)
    yield from _delete_rows(end, deletions)
    yield from _config_rows(start, end, after, {row.key for row in new})
    yield from _load_rows(end, new, tables)
    yield from _log_rows(start, end, [key for key in after if key in before and not resharded])
    for key in end.tick_keys:
        yield key, rows.encode(rows.TICK, str(end.clock_ms))


def _by_shard(offset: SourceOffset, keys: Iterable[SharePartitionKey]) -> dict[str, list[SharePartitionKey]]:
    shards: dict[str, list[SharePartitionKey]] = {}
    for key in sorted(keys):
        shards.setdefault(offset.shard_key(key), []).append(key)
    return shards


def _unload_rows(start: SourceOffset, gone: Collection[SharePartitionKey]) -> Iterator[tuple[str, str]]:
    for shard_key, keys in _by_shard(start, gone).items():
        yield shard_key, rows.encode(rows.UNLOAD, json.dumps([key.partition for key in keys]))


def _deletions(start: SourceOffset, end: SourceOffset, tables: Tables) -> dict[SharePartitionKey, int]:
    """The state epoch of each share-partition whose deletion is news; after a start without a checkpoint, of all."""
    known = {(row.key, row.state_epoch) for row in _listed(start, tables) if row.deleting}
    return {
        row.key: row.state_epoch
        for row in _listed(end, tables)
        if row.deleting and (row.key, row.state_epoch) not in known
    }


def _delete_rows(end: SourceOffset, deletions: Mapping[SharePartitionKey, int]) -> Iterator[tuple[str, str]]:
    for shard_key, keys in _by_shard(end, deletions).items():
        yield shard_key, rows.encode(rows.DELETE, json.dumps([[key.partition, deletions[key]] for key in keys]))


def _config_rows(
    start: SourceOffset,
    end: SourceOffset,
    after: Collection[SharePartitionKey],
    new: Collection[SharePartitionKey],
) -> Iterator[tuple[str, str]]:
    """Configs come with the first load of a shard, and again for every shard of a group whose config changed."""
    for shard_key, keys in _by_shard(end, after).items():
        group_id = keys[0].group_id
        config = end.config(group_id)
        if any(key in new for key in keys) or start.config(group_id) != config:
            yield shard_key, rows.encode(rows.CONFIG, json.dumps(config.to_json(), sort_keys=True))


def _load_rows(end: SourceOffset, new: Collection[SharePartitionRow], tables: Tables) -> Iterator[tuple[str, str]]:
    by_key = {row.key: row for row in new}
    states = tables.states(end.state_version, list(by_key)) if by_key else {}
    for shard_key, keys in _by_shard(end, by_key).items():
        loads = [_load(end, by_key[key], states.get(key)) for key in keys]
        yield shard_key, rows.encode(rows.LOAD, json.dumps(loads, separators=(",", ":")))


def _load(end: SourceOffset, row: SharePartitionRow, state: ShareGroupOffset | None) -> dict[str, Any]:
    log = end.offsets_of(row.key.topic, row.key.partition)
    assert log is not None
    current = state is not None and state.header.state_epoch >= row.state_epoch
    return {
        "partition": row.key.partition,
        "state_epoch": row.state_epoch,
        "initializing": row.initializing,
        "start_offset": _start_offset(end, row, log),
        "log": _visible(end, row.key, log),
        "header": state.header.dump() if state is not None else None,
        "batches": [list(batch) for batch in state.state_batches] if state is not None and current else [],
    }


def _start_offset(end: SourceOffset, row: SharePartitionRow, log: LogOffsets) -> int:
    """Where a share-partition begins that has no state: as told, or by share.auto.offset.reset."""
    if row.start_offset >= 0:
        return max(row.start_offset, log.log_start_offset)
    strategy = end.config(row.key.group_id).auto_offset_reset.strategy
    if strategy is OffsetResetStrategy.EARLIEST:
        return log.log_start_offset
    if strategy is OffsetResetStrategy.LATEST:
        return log.log_end_offset
    return end.starts[start_key(row)]


def _visible(offset: SourceOffset, key: SharePartitionKey, log: LogOffsets) -> tuple[int, int]:
    """(log start, log end) as the group may see them: up to the last stable offset when it reads committed records."""
    if offset.config(key.group_id).isolation_level is IsolationLevel.READ_COMMITTED:
        return log.log_start_offset, log.last_stable_offset
    return log.log_start_offset, log.log_end_offset


def _log_rows(start: SourceOffset, end: SourceOffset, keys: Collection[SharePartitionKey]) -> Iterator[tuple[str, str]]:
    changed = [
        key
        for key in keys
        if start.offsets_of(key.topic, key.partition) != end.offsets_of(key.topic, key.partition)
        or start.configs != end.configs
    ]
    for shard_key, shard in _by_shard(end, changed).items():
        logs = []
        for key in shard:
            log = end.offsets_of(key.topic, key.partition)
            assert log is not None
            logs.append([key.partition, *_visible(end, key, log)])
        yield shard_key, rows.encode(rows.LOG, json.dumps(logs, separators=(",", ":")))
