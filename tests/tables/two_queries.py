"""Both queries of a job on real Delta tables, without Spark and Kafka: operators, sources' plan and commit steps.

`lose_checkpoint` simulates a job that died and lost its checkpoint: only the tables are left, with the outbox of the
newest commit of each query.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from kafka import TopicPartition

from sharegroup.config import Config
from sharegroup.core.operators import rows
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_group.share_group_operator import ShareGroupOperator
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.share_partition_operator import SharePartitionOperator
from sharegroup.job.cells.static_configs import write_static_configs
from sharegroup.job.clock.handover import Handover
from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.job.knowledge.source_offset import SourceOffset
from sharegroup.job.logs.topic_identities import TopicDescription
from sharegroup.job.planning.batch_rows import rows_between
from sharegroup.job.planning.log_offsets_planner import LogOffsetsPlanner, PlannerSettings
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest
from sharegroup.storage.following.config_poll import ConfigPoll, file_values
from sharegroup.storage.following.pinned_tables import PinnedTables
from sharegroup.storage.schemas import (
    ALL_TABLES,
    GROUP_COORDINATOR_TABLES,
    SHARE_PARTITION_TABLES,
    TableSpec,
    table_path,
)
from sharegroup.storage.writing.delta_table import DeltaTableWriter, open_or_create

T0 = 1_700_000_000_000
GROUP = "g"
TOPIC_ID, AGAIN_ID = "id-orders", "id-again"


class Sent:
    """A query's producer: all `responses`, and the `requests` that the other query has not read yet."""

    def __init__(self) -> None:
        self.responses: list[Mapping[str, Any]] = []
        self.requests: list[str] = []

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        self.responses += responses
        self.requests += [value for _, value in requests]


class OrdersLogs:
    """Brokers without topic ids: for any topic id, each partition has ten records."""

    def describe(self, topics: Collection[str]) -> dict[str, TopicDescription | None]:
        return {name: TopicDescription("", {0: 0, 1: 0}) for name in topics}

    def ends(self, partitions: Collection[TopicPartition], read_committed: bool = False) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def leader_epochs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {}

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(times)

    def forget(self, topics: Collection[str]) -> None:
        """Do nothing, because nothing is stored."""


class TwoQueries:
    """Runs a query's batch at each call. The topic `orders` has ten records in each of two partitions, and so has a
    topic that is recreated under its name.
    """

    def __init__(self, root: Path, job: Config) -> None:
        self.root, self._job = str(root), job
        for spec in ALL_TABLES:
            open_or_create(self.root, spec)
        self.now_ms, self._queries, self._offset_in_topic = T0, 0, 0
        self._start()

    def _start(self) -> None:
        self._queries += 1
        self.from_groups, self.from_partitions = Sent(), Sent()
        self._group_steps = self._lead(GROUP_COORDINATOR_TABLES, self.from_groups)
        write_static_configs(self._group_steps, self._job, self.now_ms)
        self._partition_steps = self._lead(SHARE_PARTITION_TABLES, self.from_partitions)
        self._batch_id = -1
        self._group_state: str | None = None
        self._shards: dict[str, str | None] = {}
        self._offset = SourceOffset()
        self._pinned = PinnedTables({spec.name: table_path(self.root, spec) for spec in ALL_TABLES}, {})
        configs = ConfigPoll(json.loads(json.dumps(file_values(self._job))), self.root, {})
        settings = PlannerSettings(shards=1, poll_ms=200, idle_poll_ms=5_000, deletion_grace_ms=60_000)
        self._planner = LogOffsetsPlanner(self._pinned, OrdersLogs(), configs, settings)
        self._is_loaded = False

    def _lead(self, specs: Sequence[TableSpec], producer: Sent) -> CommitSteps:
        steps = CommitSteps([DeltaTableWriter(self.root, spec) for spec in specs], producer)
        steps.become_leader()
        steps.complete_last_batch()
        steps.query_id = f"query-{self._queries}"
        return steps

    def lose_checkpoint(self) -> None:
        """Start again from the tables; unread rows are lost with the request topics."""
        self._start()

    def groups(self, *requests: ShareGroupRequest) -> list[Mapping[str, Any]]:
        """Run a batch of the group_coordinator query on the other query's requests and these; return the responses."""
        values = [*self.from_partitions.requests, *[request.encode().decode() for request in requests]]
        self.from_partitions.requests.clear()
        lines = [self._line(value) for value in values]
        if not self._is_loaded:
            lines.insert(0, rows.encode_row(rows.LOAD, json.dumps(self._group_tables(), default=str)))
            self._is_loaded = True
        group = ShareGroupOperator(GROUP, self._job, self._group_state)
        output = group.run(lines, self._tick())
        self._group_state = group.dump()
        before = len(self.from_groups.responses)
        self._group_steps.commit(self._batch([output]))
        return self.from_groups.responses[before:]

    def partitions(self, *requests: SharePartitionRequest) -> list[Mapping[str, Any]]:
        """Run a batch of the share_partition query on its source and all requests; return the responses."""
        lines: dict[str, list[str]] = {}
        after = self._planner.next_offset(self._offset, Handover(), (), 0, self.now_ms) or self._offset
        for key, row in rows_between(self._offset, after, self._pinned.states):
            lines.setdefault(key, []).append(row)
        values = [*self.from_groups.requests, *[request.encode().decode() for request in requests]]
        self.from_groups.requests.clear()
        for value in values:
            named = json.loads(value)
            key = ShardKey(named["group_id"], named["topic_id"], 0).encode()
            lines.setdefault(key, []).append(self._line(value))
        self._offset = after
        now_ms, outputs = self._tick(), []
        for key, of_key in lines.items():
            shard = SharePartitionOperator(key, *ShardKey.decode(key)[:2], SnapshotRules(), self._shards.get(key))
            outputs.append(shard.run(of_key, now_ms))
            self._shards[key] = shard.dump()
        before = len(self.from_partitions.responses)
        self._partition_steps.commit(self._batch(outputs))
        return self.from_partitions.responses[before:]

    def table(self, spec: TableSpec) -> list[dict[str, Any]]:
        """Return the current rows of the table."""
        found: list[dict[str, Any]] = DeltaTable(table_path(self.root, spec)).to_pyarrow_table().to_pylist()
        return found

    def _group_tables(self) -> dict[str, list[dict[str, Any]]]:
        tables = {spec.name: self.table(spec) for spec in GROUP_COORDINATOR_TABLES}
        for of_table in tables.values():
            for row in of_table:
                del row["time"], row["chunk"]
        return {name: [row for row in of_table if row["group_id"] == GROUP] for name, of_table in tables.items()}

    def _batch(self, outputs: Iterable[Output]) -> Batch:
        self._batch_id += 1
        return Batch.from_outputs(self._batch_id, [Output.decode(output.encode()) for output in outputs])

    def _line(self, value: str) -> str:
        self._offset_in_topic += 1
        return rows.encode_row(rows.REQUEST, f"0\t{self._offset_in_topic}\t{self.now_ms}\t{value}")

    def _tick(self) -> int:
        self.now_ms += 1_000
        return self.now_ms
