"""The window sizes that a shard reports if metrics are enabled."""

from __future__ import annotations

from typing import Any

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.share_partition_operator import SharePartitionOperator
from sharegroup.monitoring.metrics.window_sizes import WindowSizes
from sharegroup.protocol.rows.reservation_requests import ReserveRequest

from .shard_driver import GROUP, KEY, TOPIC, TOPIC_ID, ShardDriver, acknowledge, config, fetch, gone, load, log, unload


class CountedShard(ShardDriver):
    def _restored(self, state: str | None) -> SharePartitionOperator:
        return SharePartitionOperator(KEY, GROUP, TOPIC_ID, self._records, state, counts=True)


def told(output: Output) -> list[WindowSizes]:
    return [WindowSizes.from_values(values) for values in output.windows]


def window(partition: int, *sizes: int, **values: Any) -> WindowSizes:
    return WindowSizes(GROUP, TOPIC, TOPIC_ID, partition, *sizes, **values)


def test_sizes_of_touched_share_partitions_only_are_reported() -> None:
    shard = CountedShard()
    output = shard.batch(
        config(), load(0, (0, 10)), load(5, (0, 7), 1), shard.line(fetch("f1", max_records=4), 0), at=0
    )
    assert told(output) == [window(0, 0, 4, 0, 0, 10), window(1, 5, 5, 0, 0, 7)]
    output = shard.send(acknowledge("a1", (0, 0, 2), (1, 1, 1)), at=1)
    assert told(output) == [window(0, 0, 4, 1, 1, 10)]
    assert told(shard.batch(log(12, partition=1), at=2)) == [window(1, 5, 5, 0, 0, 12)]


def test_removed_share_partition_is_reported_once() -> None:
    shard = CountedShard()
    shard.batch(config(), load(0, (0, 10)), load(0, (0, 10), 1), at=0)
    assert told(shard.batch(unload(1), at=1)) == [window(1, is_managed=False)]
    assert told(shard.batch(gone(), at=2)) == [window(0, is_managed=False)]
    assert told(shard.batch(gone(), at=3)) == []


def test_unknown_log_has_no_end_offset() -> None:
    assert told(CountedShard().batch(config(), load(3, None), at=0)) == [window(0, 3, 3, 0, 0, -1)]


def test_reserved_offsets_without_records_are_counted_apart() -> None:
    shard = CountedShard()
    reserve = ReserveRequest(
        "r", GROUP, TOPIC, TOPIC_ID, 0, "", -1, "gateway", records=8, lease_ms=9, reservation_epoch=1
    )
    assert told(shard.batch(config(), load(0, (0, 0)), shard.line(reserve, 0), at=0)) == [window(0, 0, 0, 0, 0, 0, 8)]
    assert told(shard.batch(log(3), at=1)) == [window(0, 0, 3, 0, 0, 3, 5)]


def test_sizes_are_not_reported_without_metrics() -> None:
    shard = SharePartitionOperator(KEY, GROUP, TOPIC_ID, SnapshotRules(), None)
    assert shard.run([config(), load(0, (0, 10))], 0).windows == []
