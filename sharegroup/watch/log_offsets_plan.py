"""From two offsets of the `kafka_log_offsets` source to its rows: the same rows in every run, whatever "now" is.

An offset pins all that its rows depend on: the versions of the two Delta tables, the log offsets of the topics, the
start offsets that a clock decided (by_duration), which share-partitions still wait for what their start depends on,
which topics are no more, the groups' configs, the shard count, and the keys to tick with the clock to tick them at. So
a batch of the offset log can be run again on an executor, days later.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sharegroup.config import GroupConfig, OffsetResetStrategy
from sharegroup.config.offset_reset import AutoOffsetReset
from sharegroup.engine import rows
from sharegroup.engine.log_offsets import LogOffsets as LogOffsets  # part of what an offset is made of
from sharegroup.errors import ShareGroupError
from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.tables.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey
from sharegroup.watch.shard_keys import ShardKey

#: The version of a table before anything was read from it.
NOTHING_READ = -1
#: Of the offset JSON.
FORMAT = 2


class OlderFormatError(ShareGroupError):
    """The checkpoint was written by a version of this project that kept another JSON."""


@dataclass(frozen=True)
class SourceOffset:
    """The source's offset JSON. `log` maps topic id -> partition -> offsets; `configs` maps group -> config, "" the
    default.

    `starts` holds start offsets looked up by time, and `waiting` names share-partitions that are not led yet, both by
    share-partition and epoch; `gone` are the ids of topics that are no more. `tick_keys` are ticked at `clock_ms`.
    """

    seq: int = 0
    shards: int = 0
    partitions_version: int = NOTHING_READ
    state_version: int = NOTHING_READ
    log: Mapping[str, Mapping[str, LogOffsets]] = field(default_factory=dict)
    starts: Mapping[str, int] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    clock_ms: int = 0
    tick_keys: tuple[str, ...] = ()
    format: int = FORMAT

    def to_json(self) -> dict[str, Any]:
        """The dict that Spark writes into its offset log."""
        row = asdict(self)
        row["log"] = {topic_id: {p: list(offsets) for p, offsets in log.items()} for topic_id, log in self.log.items()}
        return row | {name: list(row[name]) for name in _LISTS}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> SourceOffset:
        """The inverse of `to_json`. Raises OlderFormatError."""
        if row.get("format") != FORMAT:
            raise OlderFormatError(
                "the checkpoint of the query share_partition was written by another version of this job: remove its "
                "directory (share_partition below checkpoint.path), and the job comes back from the tables"
            )
        log = {
            topic_id: {p: LogOffsets(*offsets) for p, offsets in log.items()} for topic_id, log in row["log"].items()
        }
        return cls(**{**row, "log": log, **{name: tuple(row[name]) for name in _LISTS}})

    def offsets_of(self, key: SharePartitionKey) -> LogOffsets | None:
        """The log offsets of a topic partition, None while they are not known."""
        return self.log.get(key.topic_id, {}).get(str(key.partition))

    def config(self, group_id: str) -> GroupConfig:
        """The group's config in force."""
        return _parse_config(json.dumps(self.configs.get(group_id) or self.configs.get("") or {}, sort_keys=True))

    def reset_of(self, row: SharePartitionRow) -> AutoOffsetReset:
        """Where a share-partition starts that was told no start offset: as its row says, which knows the config of
        then."""
        if row.auto_offset_reset is not None:
            return AutoOffsetReset.parse(row.auto_offset_reset)
        return self.config(row.key.group_id).auto_offset_reset

    def shard_key(self, key: SharePartitionKey) -> str:
        """The operator key that leads the share-partition."""
        return ShardKey(key.group_id, key.topic_id, key.partition % self.shards).encode()


_LISTS = ("waiting", "gone", "tick_keys")


@functools.lru_cache(maxsize=256)
def _parse_config(text: str) -> GroupConfig:
    return GroupConfig.from_json(json.loads(text))


def start_key(row: SharePartitionRow) -> str:
    """The key of `SourceOffset.starts` and `.waiting`.

    The state epoch is part of it: a share-partition that is initialized again gets a start offset of its own, by the
    time of that initialisation.
    """
    return f"{row.key.group_id}\t{row.key.topic_id}\t{row.key.partition}\t{row.state_epoch}"


@dataclass(frozen=True)
class TableReaders:
    """Reads of the pinned versions: the share-partitions, and the folded states of some of them."""

    share_partitions: Callable[[int], Collection[SharePartitionRow]]
    states: Callable[[int, Collection[SharePartitionKey]], Mapping[SharePartitionKey, ShareGroupOffset]]


def is_current(state: ShareGroupOffset | None, row: SharePartitionRow) -> bool:
    """Whether the state is the share-partition's, not that of an earlier epoch."""
    return state is not None and state.header.state_epoch >= row.state_epoch


def to_lead(offset: SourceOffset, tables: TableReaders) -> list[SharePartitionRow]:
    """The share-partitions in the table that are not being deleted."""
    return [row for row in _listed(offset, tables) if not row.deleting]


def led(offset: SourceOffset, tables: TableReaders) -> dict[SharePartitionKey, SharePartitionRow]:
    """The share-partitions that an offset leads: all that neither wait nor belong to a topic that is gone."""
    waiting, gone = set(offset.waiting), set(offset.gone)
    return {
        row.key: row
        for row in to_lead(offset, tables)
        if row.key.topic_id not in gone and not (waiting and start_key(row) in waiting)
    }


def to_load(start: SourceOffset, end: SourceOffset, tables: TableReaders) -> list[SharePartitionRow]:
    """The share-partitions that the batch from `start` to `end` loads; `end` must then pin the newest state.

    An older one would be wrong for a share-partition that was led in between (the shard count changed), and may be
    gone for one whose topic was away for days.
    """
    before = {} if start.shards != end.shards else led(start, tables)
    return [
        row
        for key, row in led(end, tables).items()
        if key not in before or row.state_epoch > before[key].state_epoch
    ]  # fmt: skip


def _listed(offset: SourceOffset, tables: TableReaders) -> Collection[SharePartitionRow]:
    return () if offset.partitions_version == NOTHING_READ else tables.share_partitions(offset.partitions_version)


def rows_between(start: SourceOffset, end: SourceOffset, tables: TableReaders) -> Iterator[tuple[str, str]]:
    """The (shard key, row) pairs of the batch from `start` to `end`, in a fixed order."""
    if start == end:
        return
    before, after = led(start, tables), led(end, tables)
    resharded = bool(before) and start.shards != end.shards
    deletions = _deletions(start, end, tables)
    new = to_load(start, end, tables)
    lost = set(end.gone)
    left = [key for key in before if key not in after and key not in deletions and key.topic_id not in lost]
    yield from _gone_rows(start, end, tables)
    yield from _unload_rows(start, list(before) if resharded else left)
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


def _gone_rows(start: SourceOffset, end: SourceOffset, tables: TableReaders) -> Iterator[tuple[str, str]]:
    """Each shard is told once, and again when a share-partition of the topic is listed anew."""
    told = _of_gone_topics(start, tables)
    news = {key: topic for (key, epoch), topic in _of_gone_topics(end, tables).items() if (key, epoch) not in told}
    for shard_key, keys in _by_shard(end, news).items():
        yield shard_key, rows.encode(rows.GONE, json.dumps(news[keys[0]]))


def _of_gone_topics(offset: SourceOffset, tables: TableReaders) -> dict[tuple[SharePartitionKey, int], str]:
    gone = set(offset.gone)
    if not gone:
        return {}
    return {
        (row.key, row.state_epoch): row.key.topic for row in to_lead(offset, tables) if row.key.topic_id in gone
    }  # fmt: skip


def _unload_rows(start: SourceOffset, left: Collection[SharePartitionKey]) -> Iterator[tuple[str, str]]:
    for shard_key, keys in _by_shard(start, left).items():
        yield shard_key, rows.encode(rows.UNLOAD, json.dumps([key.partition for key in keys]))


def _deletions(start: SourceOffset, end: SourceOffset, tables: TableReaders) -> dict[SharePartitionKey, int]:
    """The state epoch of each share-partition whose deletion is news; after a start without a checkpoint, of all."""
    known = {(row.key, row.state_epoch) for row in _listed(start, tables) if row.deleting}
    return {
        row.key: row.state_epoch
        for row in _listed(end, tables)
        if row.deleting and (row.key, row.state_epoch) not in known
    }


def _delete_rows(end: SourceOffset, deletions: Mapping[SharePartitionKey, int]) -> Iterator[tuple[str, str]]:
    for shard_key, keys in _by_shard(end, deletions).items():
        named = [[key.partition, deletions[key], key.topic] for key in keys]
        yield shard_key, rows.encode(rows.DELETE, json.dumps(named))


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


def _load_rows(
    end: SourceOffset, new: Collection[SharePartitionRow], tables: TableReaders
) -> Iterator[tuple[str, str]]:
    by_key = {row.key: row for row in new}
    states = tables.states(end.state_version, list(by_key)) if by_key else {}
    for shard_key, keys in _by_shard(end, by_key).items():
        loads = [_load(end, by_key[key], states.get(key)) for key in keys]
        yield shard_key, rows.encode(rows.LOAD, json.dumps(loads, separators=(",", ":")))


def _load(end: SourceOffset, row: SharePartitionRow, state: ShareGroupOffset | None) -> dict[str, Any]:
    """`log` is null while it is not known: what is there can be acknowledged, nothing can be given out."""
    log = end.offsets_of(row.key)
    load = {
        "topic": row.key.topic,
        "partition": row.key.partition,
        "state_epoch": row.state_epoch,
        "initializing": row.initializing,
        "log": log,
        "header": state.header.dump() if state is not None else None,
    }
    if state is not None and is_current(state, row):
        batches = [list(batch) for batch in state.state_batches]
        return load | {"start_offset": state.header.start_offset, "batches": batches}
    return load | {"start_offset": _start_offset(end, row, log), "batches": []}


def _start_offset(end: SourceOffset, row: SharePartitionRow, log: LogOffsets | None) -> int:
    """Where a share-partition begins that has no state: as told, or by share.auto.offset.reset."""
    if row.start_offset >= 0:
        return max(row.start_offset, log.log_start_offset if log else 0)
    assert log is not None
    strategy = end.reset_of(row).strategy
    if strategy is OffsetResetStrategy.EARLIEST:
        return log.log_start_offset
    if strategy is OffsetResetStrategy.LATEST:
        return log.log_end_offset
    return end.starts[start_key(row)]


def _log_rows(start: SourceOffset, end: SourceOffset, keys: Collection[SharePartitionKey]) -> Iterator[tuple[str, str]]:
    changed = [key for key in keys if start.offsets_of(key) != end.offsets_of(key)]
    for shard_key, shard in _by_shard(end, changed).items():
        logs = [[key.partition, *log] for key in shard if (log := end.offsets_of(key)) is not None]
        if logs:
            yield shard_key, rows.encode(rows.LOG, json.dumps(logs, separators=(",", ":")))
