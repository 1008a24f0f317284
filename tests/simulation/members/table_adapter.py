"""The names of share-partitions in tables and in the operator's state: the judge's only module that depends on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sharegroup.core.operators.share_partition.partition_configs import PartitionConfig
from sharegroup.core.operators.share_partition.shard_state import ShardState
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffsetHeader
from sharegroup.core.share_partition import SharePartition
from sharegroup.job.knowledge.shard_keys import UNKEYED, ShardKey
from sharegroup.types import SharePartitionKey
from tests.simulation.brokers.kafka_log import PartitionLog, SimulatedKafka
from tests.simulation.job.job_adapter import SHARE_PARTITION
from tests.simulation.job.simulated_job import SimulatedJob
from tests.simulation.judges.judge import Key

#: Causes of transitions that end a share-partition's life.
ENDS_OF_LIFE = ("reset", "topic_deleted")


class TableKey(NamedTuple):
    """A share-partition as rows name it."""

    group_id: str
    topic: str
    topic_id: str
    partition: int

    def named(self) -> str:
        """Return the form of the judge's keys."""
        return f"{self.group_id} {self.topic}-{self.partition}"


def of_row(row: Mapping[str, Any]) -> TableKey:
    """Return the key of a row of share_group_state or delivery_log."""
    return TableKey(row["group_id"], row["topic"], row["topic_id"], row["partition"])


def of_state(key: SharePartitionKey) -> TableKey:
    """Return the key of a folded state."""
    return TableKey(*key)


def of_key(key: Key) -> TableKey:
    """Return the key for one of the judge's keys."""
    return TableKey(*key)


def to_state_key(key: TableKey) -> SharePartitionKey:
    """The inverse of `of_state`."""
    return SharePartitionKey(*key)


def log_of(kafka: SimulatedKafka, key: TableKey) -> PartitionLog | None:
    """Return the log of a share-partition, if it exists."""
    topic = kafka.topic_by_id(key.topic_id)
    return topic.partitions[key.partition] if topic and key.partition < len(topic.partitions) else None


def operator_configs(job: SimulatedJob) -> Iterator[tuple[TableKey, PartitionConfig]]:
    """Yield the group's config as each share-partition has it."""
    for loaded in _shard_states(job):
        for partition in loaded.partitions():
            key = TableKey(loaded.group_id, loaded.topic, loaded.topic_id, partition)
            yield key, loaded.configs.get(partition)


def operator_states(job: SimulatedJob) -> Iterator[tuple[TableKey, ShareGroupOffsetHeader, SharePartition]]:
    """Yield the present state of the share_partition operator."""
    for loaded in _shard_states(job):
        for partition in loaded.partitions():
            led = loaded.get(partition)
            assert led is not None
            yield TableKey(loaded.group_id, loaded.topic, loaded.topic_id, partition), led.header, led.window


def _shard_states(job: SimulatedJob) -> Iterator[ShardState]:
    for key, state in sorted(job.queries[SHARE_PARTITION].micro_batches.state.items()):
        if key != UNKEYED:
            group_id, topic_id, _ = ShardKey.decode(key)
            yield ShardState(group_id, topic_id, state)
