"""What the simulated job runs of the project's own code, and how: the one module that knows its seams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from kafka.errors import KafkaError

from sharegroup.config import JobConfig
from sharegroup.engine.answers import reject_unkeyed
from sharegroup.engine.durable_records import DurableRecords
from sharegroup.engine.share_group_operator import run_share_group
from sharegroup.engine.share_partition_shard import Shard
from sharegroup.protocol.response_rows import NEW_LEADER_KEY
from sharegroup.spark.commit_steps import CommitSteps
from sharegroup.spark.job_query import JobQuery
from sharegroup.spark.kafka_clients import KafkaUnavailableError
from sharegroup.spark.shard_keys import UNKEYED, ShardKey
from sharegroup.spark.static_configs import write_static_configs
from sharegroup.spark.stop_signal import StopSignal
from sharegroup.tables.schemas import GROUP_COORDINATOR_TABLES, SHARE_GROUP_JOB, SHARE_PARTITION_TABLES
from sharegroup.testkit.simulation import job_sources
from sharegroup.testkit.simulation.kafka_log import SimulatedKafka
from sharegroup.testkit.simulation.memory_delta import MemoryTables, MemoryTableWriter, StoreFaults, TableCommit
from sharegroup.testkit.simulation.spark_stand_in import Operator, Process

SHARE_PARTITION, GROUP_COORDINATOR = "share_partition", "group_coordinator"
NAMES = (GROUP_COORDINATOR, SHARE_PARTITION)


def operator_of(name: str, config: JobConfig) -> Operator:
    """The query's operator, as `spark.operators` calls it."""
    if name == GROUP_COORDINATOR:
        return lambda key, lines, now_ms, state: run_share_group(key, config, lines, now_ms, state)
    records = DurableRecords(
        config.coordinator.snapshot_update_records_per_snapshot,
        config.coordinator.cold_partition_snapshot_interval_ms,
    )

    def run(key: str, lines: list[str], now_ms: int, state: str | None) -> Any:
        if key == UNKEYED:
            return reject_unkeyed(key, lines, now_ms), None
        group_id, topic, _ = ShardKey.decode(key)
        shard = Shard(key, group_id, topic, records, state)
        output = shard.run(lines, now_ms)
        return output, shard.dump()

    return run


def key_of(name: str, shards: int) -> Callable[[str], str]:
    """The operator key of a request's value, as the query's SQL makes it."""

    def named(value: str) -> Mapping[str, Any]:
        try:
            row = json.loads(value)
        except ValueError:
            return {}
        return row if isinstance(row, dict) else {}

    def of_share_partition(value: str) -> str:
        row = named(value)
        group_id, topic, partition = row.get("group_id"), row.get("topic"), row.get("partition")
        if not isinstance(group_id, str) or not isinstance(topic, str) or not isinstance(partition, int):
            return UNKEYED
        return f"{group_id}\t{topic}\t{partition % shards}"

    def of_group(value: str) -> str:
        group_id = named(value).get("group_id")
        return group_id if isinstance(group_id, str) else ""

    return of_group if name == GROUP_COORDINATOR else of_share_partition


class RowProducer:
    """Step 4's producer: requests first, then responses; idempotent, so that nothing is there twice of one `send`."""

    def __init__(self, kafka: SimulatedKafka, process: Process, responses: str, requests: str) -> None:
        self._kafka, self._process, self._responses, self._requests = kafka, process, responses, requests

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        """As `spark.kafka_clients.RowProducer`."""
        requested = [(key.encode(), value.encode()) for key, value in requests]
        answers = [
            (row["reply_to"].encode(), json.dumps(row, separators=(",", ":")).encode())
            for row in responses
            if row["reply_to"]
        ]
        self._produce(self._requests, requested)
        self._produce(self._responses, answers)

    def announce_leader(self) -> None:
        """As `spark.kafka_clients.RowProducer`."""
        for partition in range(len(self._kafka.topic(self._responses).partitions)):
            self._append(self._responses, partition, NEW_LEADER_KEY, b"{}")

    def close(self) -> None:
        """Nothing is open."""

    def _produce(self, topic: str, rows: list[tuple[bytes, bytes]]) -> None:
        if rows:
            self._process.pause(0.5, 8)
        for key, value in rows:
            self._append(topic, self._kafka.partition_of(topic, key), key, value)
            self._process.point("row sent")
        if rows:
            self._process.pause(0.5, 4)

    def _append(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        try:
            self._kafka.append(topic, partition, [(key, value)])
        except KafkaError as error:
            raise KafkaUnavailableError(f"cannot produce to Kafka: {error}") from error


class QueryParts:
    """What one start of a query is made of: see `make_query`."""

    def __init__(self, query: JobQuery, steps: CommitSteps, hand_over: Any, source: Any) -> None:
        self.query, self.steps, self.hand_over, self.source = query, steps, hand_over, source


def make_query(
    name: str,
    config: JobConfig,
    kafka: SimulatedKafka,
    tables: MemoryTables,
    process: Any,
    faults: StoreFaults,
    poll: job_sources.SimulatedLogPoll,
    start_stream: Callable[[Any, Mapping[int, int]], Any],
) -> QueryParts:
    """One start of a query. `start_stream(on_batch, positions)` starts Spark's part and returns its query."""
    job = config.job
    is_group = name == GROUP_COORDINATOR
    requests_topic = job.partition_requests_topic if is_group else job.group_requests_topic
    producer = RowProducer(kafka, process, job.responses_topic, requests_topic)
    specs = GROUP_COORDINATOR_TABLES if is_group else SHARE_PARTITION_TABLES
    writers: Any = [MemoryTableWriter(tables, spec, faults) for spec in specs]
    steps = CommitSteps(writers, producer, lambda step, batch_id: process.point(f"{name} {step}"))
    hand_over = job_sources.hand_over()
    source: Any
    if is_group:
        source = job_sources.GroupTicks(kafka, tables, config, hand_over)

        def on_lead() -> None:
            write_static_configs(steps, config, process.now_ms())
    else:
        source = job_sources.LogOffsets(process.clock, kafka, tables, config, hand_over, poll)
        on_lead = producer.announce_leader
    query = JobQuery(
        process,
        config,
        name,
        lambda path, positions: _Frame(start_stream, positions),  # type: ignore[arg-type, return-value]
        steps,
        f"/nowhere/{name}",
        StopSignal.__new__(StopSignal),
        dict,
        on_lead,
    )
    query._hand_over = hand_over
    query._stop = _NeverStopped()  # type: ignore[assignment]
    return QueryParts(query, steps, hand_over, source)


class _NeverStopped:
    requested = False


class _Frame:
    """The chain of calls by which a query is started."""

    def __init__(self, start_stream: Callable[[Any, Mapping[int, int]], Any], positions: Mapping[int, int]) -> None:
        self._start_stream, self._positions = start_stream, positions
        self._on_batch: Any = None

    @property
    def writeStream(self) -> _Frame:  # noqa: N802 - Spark's name
        """The writer."""
        return self

    def queryName(self, name: str) -> _Frame:  # noqa: N802 - Spark's name
        """As Spark."""
        return self

    def outputMode(self, mode: str) -> _Frame:  # noqa: N802 - Spark's name
        """As Spark."""
        return self

    def option(self, name: str, value: str) -> _Frame:
        """As Spark."""
        return self

    def trigger(self, **options: str) -> _Frame:
        """As Spark."""
        return self

    def foreachBatch(self, function: Any) -> _Frame:  # noqa: N802 - Spark's name
        """As Spark."""
        self._on_batch = function
        return self

    def start(self) -> Any:
        """Start."""
        return self._start_stream(self._on_batch, self._positions)


def record_start(tables: MemoryTables, query: JobQuery, now_ms: int) -> None:
    """As `spark.leaders.record_leader`."""
    row = {
        "query": query.name,
        "leader_epoch": query.leader_epoch,
        "query_id": str(query.query.id),
        "application_id": "simulation",
        "positions": list(query.positions.items()),
        "time": now_ms * 1000,
    }
    table = pa.Table.from_pylist([row], schema=SHARE_GROUP_JOB.schema)
    tables[SHARE_GROUP_JOB.name].commits.append(TableCommit(table, False, "", 0, None, "leaders"))
