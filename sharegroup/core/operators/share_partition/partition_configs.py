"""The group's config in each share-partition of a shard.

The source says it for the whole shard. A change comes as a `configure` request to each share-partition, in the order of
its other requests: what is appended after the change was answered comes behind it, and two share-partitions of a shard
may have read up to different points for a moment.

When durable records are snapshots, not updates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sharegroup.config import GroupConfig, IsolationLevel
from sharegroup.config.keys.offset_reset import OffsetResetStrategy
from sharegroup.core.share_partition import SharePartitionConfig
from sharegroup.errors import ErrorCode, RequestError


class PartitionConfig(NamedTuple):
    """What a share-partition goes by.

    `read_committed`: it gives out nothing at or above the last stable offset. `starts_at_end`: a new log is begun at
    its end (share.auto.offset.reset is latest).
    """

    machine: SharePartitionConfig
    read_committed: bool
    starts_at_end: bool

    @classmethod
    def of(cls, config: GroupConfig) -> PartitionConfig:
        """From the values in force for the group."""
        machine = SharePartitionConfig(
            delivery_count_limit=config.delivery_count_limit,
            record_lock_duration_ms=config.record_lock_duration_ms,
            max_record_locks=config.partition_max_record_locks,
            renew_enabled=config.renew_acknowledge_enable,
            static_record_lock_duration_ms=config.static_record_lock_duration_ms,
        )
        read_committed = config.isolation_level is IsolationLevel.READ_COMMITTED
        return cls(machine, read_committed, config.auto_offset_reset.strategy is OffsetResetStrategy.LATEST)

    @classmethod
    def of_request(cls, values: Mapping[str, Any]) -> PartitionConfig:
        """From a `configure` request, which anybody may have written. Raises RequestError (INVALID_REQUEST)."""
        try:
            config = GroupConfig.from_json(values)
        except (ValueError, TypeError, AttributeError) as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"not a group's config: {error}") from error
        for field in dataclasses.fields(config):
            value, default = getattr(config, field.name), getattr(_DEFAULTS, field.name)
            if type(value) is not type(default) or (isinstance(value, int) and value < 0):
                raise RequestError(ErrorCode.INVALID_REQUEST, f"not a group's config: {field.name}")
        return cls.of(config)

    def dump(self) -> list[Any]:
        """JSON-able; `restore` reads it back."""
        return [list(vars(self.machine).values()), self.read_committed, self.starts_at_end]

    @classmethod
    def restore(cls, dumped: Sequence[Any]) -> PartitionConfig:
        """The inverse of `dump`."""
        machine, read_committed, starts_at_end = dumped
        return cls(SharePartitionConfig(*machine), read_committed, starts_at_end)


_DEFAULTS = GroupConfig.from_json({})


class PartitionConfigs:
    """The shard's config, those of share-partitions that have another one, and when the newest change that each knows
    was altered: a leader that was paused may send an older one afterwards."""

    def __init__(self, dumped: Mapping[str, Sequence[Any]], altered: Mapping[str, int]) -> None:
        self._altered_ms = {int(p): altered_ms for p, altered_ms in altered.items() if p}
        self._shards_altered_ms = altered.get("", 0)
        self._own = {int(p): PartitionConfig.restore(config) for p, config in dumped.items() if p}
        self._shards = PartitionConfig.restore(dumped[""]) if dumped else PartitionConfig.of(_DEFAULTS)

    def dump(self) -> dict[str, list[Any]]:
        """JSON-able; the constructor reads it back."""
        return {"": self._shards.dump()} | {str(p): config.dump() for p, config in self._own.items()}

    def dump_altered(self) -> dict[str, int]:
        """When the newest change of each share-partition was altered, JSON-able."""
        of_shard = {"": self._shards_altered_ms} if self._shards_altered_ms else {}
        return of_shard | {str(p): altered_ms for p, altered_ms in self._altered_ms.items()}

    def of(self, partition: int) -> PartitionConfig:
        """What is in force for a share-partition."""
        return self._own.get(partition, self._shards)

    def set_all(self, config: PartitionConfig, altered_ms: int) -> None:
        """What the source says, for it reads it when all requests before are read. It holds all changes up to
        `altered_ms`, so that an older one is known also by a shard that has lost its state."""
        self._shards, self._shards_altered_ms = config, altered_ms
        self._own.clear()

    def set(self, partition: int, config: PartitionConfig, altered_ms: int) -> None:
        """A change has come to a share-partition; one that is older than another that has come is passed over."""
        if altered_ms < max(self._shards_altered_ms, self._altered_ms.get(partition, 0)):
            return
        self._altered_ms[partition] = altered_ms
        if config == self._shards:
            self._own.pop(partition, None)
        else:
            self._own[partition] = config

    def drop(self, partition: int) -> None:
        """The share-partition is not here any more."""
        self._own.pop(partition, None)
        self._altered_ms.pop(partition, None)


class SnapshotRules(NamedTuple):
    """The keys share.coordinator.* of the job."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
