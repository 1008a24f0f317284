"""Both queries of a job on real Delta tables, without Spark and Kafka: operators, sources' plan and commit steps.

`lose_checkpoint` is a job that died and whose checkpoint is gone: all that is left is the tables, with the outbox of
the newest commit of each query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from sharegroup.commit.commit_steps import Batch, CommitSteps
from sharegroup.commit.delta_table import DeltaTableWriter, open_or_create
from sharegroup.commit.static_configs import write_static_configs
from sharegroup.config import Config
from sharegroup.engine import rows
from sharegroup.engine.output import Output
from sharegroup.engine.share_group_operator import ShareGroupOperator
from sharegroup.engine.share_partition_shard import Shard
from sharegroup.engine.snapshot_rules import SnapshotRules
from sharegroup.protocol.share_group_requests import ShareGroupRequest
from sharegroup.protocol.share_partition_requests import SharePartitionRequest
from sharegroup.tables.config_poll import ConfigPoll, file_values
from sharegroup.tables.pinned_tables import PinnedTables
from sharegroup.tables.schemas import (
    ALL_TABLES,
    GROUP_COORDINATOR_TABLES,
    SHARE_GROUP_STATE,
    SHARE_PARTITION_TABLES,
    SHARE_PARTITIONS,
    TableSpec,
    table_path,
)
from sharegroup.watch.log_offsets_plan import LogOffsets, SourceOffset, TableReaders, rows_between
from sharegroup.watch.shard_keys import ShardKey

T0 = 1_700_000_000_000
GROUP = "g"
TOPIC_ID, AGAIN_ID = "id-orders", "id-again"


class Sent:
    """A query's producer: `responses` to everybody, `requests` that the other query has not read yet."""

    def __init__(self) -> None:
        self.responses: list[Mapping[str, Any]] = []
        self.requests: list[str] = []

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        self.responses += responses
        self.requests += [value for _, value in requests]


class TwoQueries:
    """Runs a query's batch at each call. The topic `orders` has ten records in each of two partitions, and so has
    another one that is made under its name.
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
        self._configs = ConfigPoll(json.loads(json.dumps(file_values(self._job))), self.root, {})
        self._is_loaded = False

    def _lead(self, specs: Sequence[TableSpec], producer: Sent) -> CommitSteps:
        steps = CommitSteps([DeltaTableWriter(self.root, spec) for spec in specs], producer)
        steps.lead()
        steps.complete_last_batch()
        steps.query_id = f"query-{self._queries}"
        return steps

    def lose_checkpoint(self) -> None:
        """Start again from the tables; what was sent and not read yet is lost with the request topics."""
        self._start()

    def groups(self, *requests: ShareGroupRequest) -> list[Mapping[str, Any]]:
        """A batch of the group_coordinator query: notices of the other query, and these requests; the responses."""
        values = [*self.from_partitions.requests, *[request.encode().decode() for request in requests]]
        self.from_partitions.requests.clear()
        lines = [self._line(value) for value in values]
        if not self._is_loaded:
            lines.insert(0, rows.encode(rows.LOAD, json.dumps(self._group_tables(), default=str)))
            self._is_loaded = True
        group = ShareGroupOperator(GROUP, self._job, self._group_state)
        output = group.run(lines, self._tick())
        self._group_state = group.dump()
        before = len(self.from_groups.responses)
        self._group_steps.commit(self._batch([output]))
        return self.from_groups.responses[before:]

    def partitions(self, *requests: SharePartitionRequest) -> list[Mapping[str, Any]]:
        """A batch of the share_partition query: its source, the other query's requests, and these; the responses."""
        lines: dict[str, list[str]] = {}
        after = self._polled()
        tables = TableReaders(self._pinned.share_partitions, self._pinned.states)
        for key, row in rows_between(self._offset, after, tables):
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
            shard = Shard(key, *ShardKey.decode(key)[:2], SnapshotRules(), self._shards.get(key))
            outputs.append(shard.run(of_key, now_ms))
            self._shards[key] = shard.dump()
        before = len(self.from_partitions.responses)
        self._partition_steps.commit(self._batch(outputs))
        return self.from_partitions.responses[before:]

    def table(self, spec: TableSpec) -> list[dict[str, Any]]:
        """The rows of a table as they are now."""
        found: list[dict[str, Any]] = DeltaTable(table_path(self.root, spec)).to_pyarrow_table().to_pylist()
        return found

    def _polled(self) -> SourceOffset:
        return replace(
            self._offset,
            seq=self._offset.seq + 1,
            shards=1,
            partitions_version=self._pinned.newest_version(SHARE_PARTITIONS.name),
            state_version=self._pinned.newest_version(SHARE_GROUP_STATE.name),
            log={topic_id: {str(p): LogOffsets(0, 10, 10) for p in range(2)} for topic_id in (TOPIC_ID, AGAIN_ID)},
            configs=self._configs.in_force(self.now_ms),
        )

    def _group_tables(self) -> dict[str, list[dict[str, Any]]]:
        tables = {spec.name: self.table(spec) for spec in GROUP_COORDINATOR_TABLES}
        for of_table in tables.values():
            for row in of_table:
                del row["time"], row["chunk"]
        return {name: [row for row in of_table if row["group_id"] == GROUP] for name, of_table in tables.items()}

    def _batch(self, outputs: Iterable[Output]) -> Batch:
        self._batch_id += 1
        return Batch.of(self._batch_id, [Output.decode(output.encode()) for output in outputs])

    def _line(self, value: str) -> str:
        self._offset_in_topic += 1
        return rows.encode(rows.REQUEST, f"0\t{self._offset_in_topic}\t{self.now_ms}\t{value}")

    def _tick(self) -> int:
        self.now_ms += 1_000
        return self.now_ms
