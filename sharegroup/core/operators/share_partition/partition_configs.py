"""The group's config in each share-partition of a shard, and the configs for snapshots.

The source of the streaming query reads the config of the whole shard from the tables. A later change arrives as a
`configure` request for each share-partition, which is processed before the other requests of its micro-batch. Therefore
the new config applies to every request that is appended after the response to the change. For a short time, two
share-partitions of a shard may have different configs.
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
    """The configs of a share-partition.

    Attributes:
        machine: The configs of the state machine (`SharePartition`).
        read_committed: Whether records at or above the last stable offset must not be acquired.
        starts_at_end: Whether a topic that was deleted and created again is read from the end of its log, because
            share.auto.offset.reset is latest.
    """

    machine: SharePartitionConfig
    read_committed: bool
    starts_at_end: bool

    @classmethod
    def from_group_config(cls, config: GroupConfig) -> PartitionConfig:
        """Return the share-partition configs from the effective config of the group."""
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
    def from_request(cls, values: Mapping[str, Any]) -> PartitionConfig:
        """Return the configs of a `configure` request. Raises RequestError (INVALID_REQUEST) for invalid values."""
        try:
            config = GroupConfig.from_json(values)
        except (ValueError, TypeError, AttributeError) as error:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"the group config is invalid: {error}") from error
        for field in dataclasses.fields(config):
            value, default = getattr(config, field.name), getattr(_DEFAULTS, field.name)
            if type(value) is not type(default) or (isinstance(value, int) and value < 0):
                raise RequestError(ErrorCode.INVALID_REQUEST, f"the group config has an invalid value of {field.name}")
        return cls.from_group_config(config)

    def dump(self) -> list[Any]:
        """Return the configs as a JSON-able list for `restore`."""
        return [list(vars(self.machine).values()), self.read_committed, self.starts_at_end]

    @classmethod
    def restore(cls, dumped: Sequence[Any]) -> PartitionConfig:
        """Return the configs that `dump` wrote."""
        machine, read_committed, starts_at_end = dumped
        return cls(SharePartitionConfig(*machine), read_committed, starts_at_end)


_DEFAULTS = GroupConfig.from_json({})


class PartitionConfigs:
    """The configs of a shard, and the configs of single share-partitions that differ from them.

    For the shard and for each share-partition, the time of the newest change is stored. A job that was paused may send
    an older change later, which is then ignored.
    """

    def __init__(self, dumped: Mapping[str, Sequence[Any]], altered: Mapping[str, int]) -> None:
        self._altered_ms = {int(p): altered_ms for p, altered_ms in altered.items() if p}
        self._shards_altered_ms = altered.get("", 0)
        self._own = {int(p): PartitionConfig.restore(config) for p, config in dumped.items() if p}
        self._shards = PartitionConfig.restore(dumped[""]) if dumped else PartitionConfig.from_group_config(_DEFAULTS)

    def dump(self) -> dict[str, list[Any]]:
        """Return the configs as JSON-able values for the constructor."""
        return {"": self._shards.dump()} | {str(p): config.dump() for p, config in self._own.items()}

    def dump_altered(self) -> dict[str, int]:
        """Return the times of the newest changes as JSON-able values for the constructor."""
        of_shard = {"": self._shards_altered_ms} if self._shards_altered_ms else {}
        return of_shard | {str(p): altered_ms for p, altered_ms in self._altered_ms.items()}

    def get(self, partition: int) -> PartitionConfig:
        """Return the configs of a share-partition."""
        return self._own.get(partition, self._shards)

    def set_all(self, config: PartitionConfig, altered_ms: int) -> None:
        """Set the configs of all share-partitions to `config`, which the source has read from the tables.

        `config` contains all changes up to `altered_ms`, so `set` ignores older changes that arrive later. The source
        sends this time with the config. `set` can therefore compare times even if the shard has lost its state.
        """
        self._shards, self._shards_altered_ms = config, altered_ms
        self._own.clear()

    def set(self, partition: int, config: PartitionConfig, altered_ms: int) -> None:
        """Set the configs of a share-partition. A change that is older than an applied one is ignored."""
        if altered_ms < max(self._shards_altered_ms, self._altered_ms.get(partition, 0)):
            return
        self._altered_ms[partition] = altered_ms
        if config == self._shards:
            self._own.pop(partition, None)
        else:
            self._own[partition] = config

    def remove(self, partition: int) -> None:
        """Remove the entries of a share-partition that this shard no longer has."""
        self._own.pop(partition, None)
        self._altered_ms.pop(partition, None)


class SnapshotRules(NamedTuple):
    """The job's configs share.coordinator.*, which determine when a snapshot record is written instead of an update.

    At most `updates_per_snapshot` updates follow a snapshot. `cold_snapshot_interval_ms` is the age in ms at which a
    snapshot with later updates is replaced.
    """

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
