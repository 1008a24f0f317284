"""The rows of one batch of the `kafka_log_offsets` source, gathered while it is planned."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sharegroup.core.operators import rows
from sharegroup.job.knowledge.led_shards import LedShards
from sharegroup.job.knowledge.source_offset import SourceRow
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.storage.reading.fences import Fence
from sharegroup.types import SharePartitionKey


class BatchPlan:
    """What a batch says, by kind. Who is told the same is listed once: a tick for all, or a log that many groups read,
    is one entry."""

    def __init__(self) -> None:
        self._rows: dict[str, list[SourceRow]] = {}

    @property
    def has_rows(self) -> bool:
        """Whether it says anything."""
        return bool(self._rows)

    @property
    def loading(self) -> list[str]:
        """The operator keys that load something."""
        return [shard_key for row in self._rows.get(rows.LOAD, ()) for shard_key in row.shard_keys]

    def gone(self, topic: str, shard_keys: Iterable[str]) -> None:
        """A topic is no more."""
        self._say(rows.GONE, topic, sorted(shard_keys))

    def unload(self, led: LedShards, keys: Collection[SharePartitionKey]) -> None:
        """These are led no more."""
        for shard_key, of_shard in led.by_shard(keys).items():
            self._say(rows.UNLOAD, [key.partition for key in of_shard], [shard_key])

    def delete(self, led: LedShards, deletions: Iterable[SharePartitionRow]) -> None:
        """The states of these are to be deleted."""
        epochs = {row.key: row.state_epoch for row in deletions}
        for shard_key, keys in led.by_shard(epochs).items():
            self._say(rows.DELETE, [[key.partition, epochs[key], key.topic] for key in keys], [shard_key])

    def configure(self, config: dict[str, Any], shard_keys: Iterable[str]) -> None:
        """The config of a group is this one."""
        self._say(rows.CONFIG, config, sorted(shard_keys))

    def fence(self, fences: list[Fence], shard_keys: Iterable[str]) -> None:
        """Members of a group are these processes, and no longer others."""
        self._say(rows.FENCES, [list(fence) for fence in fences], sorted(shard_keys))

    def load(self, shard_key: str, loads: list[dict[str, Any]]) -> None:
        """A shard leads these from now on; `batch_rows` adds what their states say."""
        self._say(rows.LOAD, loads, [shard_key])

    def move_logs(self, logs: dict[str, list[list[Any]]]) -> None:
        """By shard: how far logs reach now."""
        same: dict[str, tuple[list[list[Any]], list[str]]] = {}
        for shard_key, of_shard in sorted(logs.items()):
            same.setdefault(repr(of_shard), (of_shard, []))[1].append(shard_key)
        for of_shard, shard_keys in same.values():
            self._say(rows.LOG, of_shard, shard_keys)

    def tick(self, clock_ms: int, shard_keys: Collection[str]) -> None:
        """All that these have asked for before is read: their clock goes on."""
        self._say(rows.TICK, clock_ms, sorted(shard_keys))

    def rows(self) -> tuple[SourceRow, ...]:
        """All of it, in a fixed order."""
        order = (rows.GONE, rows.UNLOAD, rows.DELETE, rows.CONFIG, rows.FENCES, rows.LOAD, rows.LOG, rows.TICK)
        return tuple(row for kind in order for row in self._rows.get(kind, ()))

    def _say(self, kind: str, body: Any, shard_keys: Collection[str]) -> None:
        if shard_keys:
            self._rows.setdefault(kind, []).append(SourceRow(kind, body, tuple(shard_keys)))
