"""The rows of one batch of the `kafka_log_offsets` source, collected while it is planned."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sharegroup.core.operators import rows
from sharegroup.job.knowledge.managed_shards import ManagedShards
from sharegroup.job.knowledge.source_offset import SourceRow
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.storage.reading.fences import Fence
from sharegroup.types import SharePartitionKey


class BatchPlan:
    """The rows of a batch, by kind.

    Each row lists the operator keys that receive it. Keys that need the same content share one row. Examples are a tick
    for all keys, and the offsets of a log that many groups read.
    """

    def __init__(self) -> None:
        self._rows: dict[str, list[SourceRow]] = {}

    @property
    def has_rows(self) -> bool:
        return bool(self._rows)

    @property
    def loading(self) -> list[str]:
        """The operator keys that load share-partitions in this batch."""
        return [shard_key for row in self._rows.get(rows.LOAD, ()) for shard_key in row.shard_keys]

    def add_deleted_topic(self, topic: str, shard_keys: Iterable[str]) -> None:
        self._add(rows.TOPIC_DELETED, topic, sorted(shard_keys))

    def add_unload(self, managed: ManagedShards, keys: Collection[SharePartitionKey]) -> None:
        """Add rows by which the shards of these share-partitions unload them."""
        for shard_key, of_shard in managed.by_shard(keys).items():
            self._add(rows.UNLOAD, [key.partition for key in of_shard], [shard_key])

    def add_deletions(self, managed: ManagedShards, deletions: Iterable[SharePartitionRow]) -> None:
        """Add share-partitions whose durable states the shards must delete."""
        epochs = {row.key: row.state_epoch for row in deletions}
        for shard_key, keys in managed.by_shard(epochs).items():
            self._add(rows.DELETE, [[key.partition, epochs[key], key.topic] for key in keys], [shard_key])

    def add_config(self, config: dict[str, Any], shard_keys: Iterable[str]) -> None:
        self._add(rows.CONFIG, config, sorted(shard_keys))

    def add_fences(self, fences: list[Fence], shard_keys: Iterable[str]) -> None:
        """Add a group's fences, each with the current process of a member.

        The operator then rejects requests of the member's earlier processes.
        """
        self._add(rows.FENCES, [list(fence) for fence in fences], sorted(shard_keys))

    def add_loads(self, shard_key: str, loads: list[dict[str, Any]]) -> None:
        """Add share-partitions for a shard to load. The shard then manages them. `batch_rows` adds their states."""
        self._add(rows.LOAD, loads, [shard_key])

    def add_log_offsets(self, logs: dict[str, list[list[Any]]]) -> None:
        """Add new log offsets. `logs` has, by shard key, a list for each log: [partition, *PartitionLog.dump()]."""
        same: dict[str, tuple[list[list[Any]], list[str]]] = {}
        for shard_key, of_shard in sorted(logs.items()):
            same.setdefault(repr(of_shard), (of_shard, []))[1].append(shard_key)
        for of_shard, shard_keys in same.values():
            self._add(rows.LOG, of_shard, shard_keys)

    def add_ended_leases(self, gateways: Mapping[str, Sequence[str]]) -> None:
        """Add the gateways whose leases have ended, by operator key."""
        same: dict[tuple[str, ...], list[str]] = {}
        for shard_key, of_key in gateways.items():
            same.setdefault(tuple(of_key), []).append(shard_key)
        for of_key, shard_keys in sorted(same.items()):
            self._add(rows.LEASES_OVER, list(of_key), sorted(shard_keys))

    def add_tick(self, clock_ms: int, shard_keys: Collection[str]) -> None:
        """Add a tick with the time `clock_ms`. All requests appended before that time have been read."""
        self._add(rows.TICK, clock_ms, sorted(shard_keys))

    def rows(self) -> tuple[SourceRow, ...]:
        """Return all rows in a fixed order."""
        order = (
            rows.TOPIC_DELETED, rows.UNLOAD, rows.DELETE, rows.CONFIG, rows.FENCES, rows.LOAD, rows.LOG,
            rows.LEASES_OVER, rows.TICK,
        )  # fmt: skip
        return tuple(row for kind in order for row in self._rows.get(kind, ()))

    def _add(self, kind: str, body: Any, shard_keys: Collection[str]) -> None:
        if shard_keys:
            self._rows.setdefault(kind, []).append(SourceRow(kind, body, tuple(shard_keys)))
