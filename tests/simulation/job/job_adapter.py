"""The parts of the project's code that the simulated job runs: the only module that depends on their interfaces."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from kafka.errors import KafkaError

from sharegroup.config import Config
from sharegroup.core.operators.gateway_leases import GatewayLeases
from sharegroup.core.operators.operator import Operator
from sharegroup.core.operators.share_group.share_group_operator import ShareGroupOperator
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.share_partition_operator import SharePartitionOperator
from sharegroup.errors import FencedLeaderError
from sharegroup.job.cells.static_configs import write_static_configs
from sharegroup.job.commit.commit_steps import CommitSteps, positions_in
from sharegroup.job.commit.query_run import QueryRun
from sharegroup.job.commit.repeated_batch import effect_rules
from sharegroup.job.knowledge.shard_keys import UNKEYED, ShardKey
from sharegroup.job.lead.job_lead import JobLead
from sharegroup.job.lead.stale_checkpoint import (
    Checkpoint,
    reject_checkpoint_ahead,
    reject_lost_commits,
    reject_stale_checkpoint,
)
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.kafka_clients.job_clock import JobClock
from sharegroup.kafka_clients.kafka_clients import KafkaUnavailableError
from sharegroup.protocol.json_text import unpack_json
from sharegroup.protocol.response_records import to_records
from sharegroup.protocol.rows.broadcasts import BROADCAST_KEY, NewLeaderBroadcast, encode_broadcast
from sharegroup.protocol.rows.probe import PROBE
from sharegroup.storage.schemas import (
    GROUP_COORDINATOR_TABLES,
    SHARE_GROUP_JOB,
    SHARE_PARTITION_TABLES,
    TableSpec,
)
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import TableStoreError, Upkeep, VersionedTable
from tests.simulation.brokers.kafka_log import Row, SimulatedKafka
from tests.simulation.job import job_sources
from tests.simulation.job.simulated_later import SimulatedLater
from tests.simulation.job.simulated_tables import SimulatedTables, StoreFaults
from tests.simulation.spark.spark_stand_in import Process

SHARE_PARTITION, GROUP_COORDINATOR = "share_partition", "group_coordinator"
NAMES = (GROUP_COORDINATOR, SHARE_PARTITION)
#: Few enough that the few rows of a run are in several chunks.
_CHUNK_ROWS = 4
_TABLES = {GROUP_COORDINATOR: GROUP_COORDINATOR_TABLES, SHARE_PARTITION: SHARE_PARTITION_TABLES}


def operator_of(name: str, config: Config) -> Callable[[str, str | None], Operator]:
    """Return the query's operator with the state of a key, as `queries.operators` restores it."""
    if name == GROUP_COORDINATOR:
        return lambda group_id, state: ShareGroupOperator(group_id, config, state)
    records = SnapshotRules(
        config.coordinator.snapshot_update_records_per_snapshot,
        config.coordinator.cold_partition_snapshot_interval_ms,
    )

    def restore(key: str, state: str | None) -> Operator:
        if key == UNKEYED:
            return GatewayLeases(key)
        group_id, topic_id, _ = ShardKey.decode(key)
        return SharePartitionOperator(key, group_id, topic_id, records, state)

    return restore


def key_of(name: str, shards: int) -> Callable[[str], str]:
    """Return the operator key of a request's value, as the query's SQL creates it."""

    def named(value: str) -> Mapping[str, Any]:
        try:
            row = json.loads(value)
        except ValueError:
            return {}
        return row if isinstance(row, dict) else {}

    def of_share_partition(value: str) -> str:
        row = named(value)
        group_id, topic_id, partition = row.get("group_id"), row.get("topic_id"), row.get("partition")
        if not isinstance(group_id, str) or not isinstance(topic_id, str) or not isinstance(partition, int):
            return UNKEYED
        return f"{group_id}\t{topic_id}\t{partition % shards}"

    def of_group(value: str) -> str:
        group_id = named(value).get("group_id")
        return group_id if isinstance(group_id, str) else ""

    return of_group if name == GROUP_COORDINATOR else of_share_partition


#: The time after which `KafkaRowProducer` retries without a response, and its total limit, in ms.
_ATTEMPT_MS, _DELIVERY_MS = 3_000, 120_000


class _SentRow:
    """A row on its way to its leader, which appends it once, however often it is sent."""

    def __init__(
        self,
        kafka: SimulatedKafka,
        topic: str,
        partition: int,
        row: Row,
        appended: Callable[[int], None] = lambda append_ms: None,
    ) -> None:
        """`appended` is called with the time of its append."""
        self._kafka, self._topic, self._partition, self._row = kafka, topic, partition, row
        self._appended = appended
        self.is_answered = False
        self._error: KafkaError | None = None
        self.send()

    def send(self) -> None:
        """Send it, for the first time or again."""
        self._kafka.at_leader(self._topic, self._partition, self._append)

    def check(self) -> None:
        """Raise KafkaUnavailableError if it was rejected or has no response."""
        if self._error is not None or not self.is_answered:
            raise KafkaUnavailableError(f"cannot produce to Kafka: {self._error}") from self._error

    def _append(self) -> None:
        if not self.is_answered:
            self.is_answered = True
            try:
                batch = self._kafka.append(self._topic, self._partition, [self._row])
                self._appended(batch.append_ms)
            except KafkaError as error:
                self._error = error


class RowProducer:
    """The producer of step 4: requests first, then responses; idempotent, so that one `send` creates no duplicates."""

    def __init__(self, kafka: SimulatedKafka, process: Process, responses: str, requests: str, clock: JobClock) -> None:
        self._kafka, self._process, self._responses, self._requests = kafka, process, responses, requests
        self._clock = clock

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        """Send as `KafkaRowProducer.send`: rows for all, requests to the other query, responses."""
        requested = [(key.encode(), value.encode()) for key, value in requests]
        answers = [(key.encode(), value) for key, value in to_records(responses)]
        self._broadcast([value for key, value in answers if key == BROADCAST_KEY.encode()])
        self._produce(self._requests, requested)
        self._produce(self._responses, [(key, value) for key, value in answers if key != BROADCAST_KEY.encode()])

    def announce_leader(self) -> None:
        """Send as `KafkaRowProducer.announce_leader`: a row for all in each partition."""
        self._broadcast([encode_broadcast(NewLeaderBroadcast())])

    def send_probe(self, topic: str) -> None:
        """Send as `KafkaRowProducer.send_probe`."""
        self._process.pause(0.5, 4)
        self._wait(self._send_probes(topic))

    def refresh_clock(self, topic: str) -> None:
        """Refresh as `KafkaRowProducer.refresh_clock`."""
        self._send_probes(topic)

    def _send_probes(self, topic: str) -> list[_SentRow]:
        self._clock.record_probe()
        partitions = range(len(self._kafka.topic(topic).partitions))
        return [self._send_probe(topic, partition) for partition in partitions]

    def _send_probe(self, topic: str, partition: int) -> _SentRow:
        sent_ms = self._clock.local_ms()

        def appended(append_ms: int) -> None:
            self._clock.record_append((topic, partition), sent_ms, append_ms)

        return _SentRow(self._kafka, topic, partition, (b"", PROBE.encode()), appended)

    def _broadcast(self, values: list[bytes]) -> None:
        partitions = range(len(self._kafka.topic(self._responses).partitions))
        rows = [(BROADCAST_KEY.encode(), value) for value in values]
        self._wait([self._send(self._responses, partition, row) for row in rows for partition in partitions])

    def close(self) -> None:
        """Do nothing, because nothing is open."""

    def _produce(self, topic: str, rows: list[tuple[bytes, bytes]]) -> None:
        if not rows:
            return
        self._process.pause(0.5, 8)
        sent = []
        for key, value in rows:
            is_for_all = key == BROADCAST_KEY.encode()
            count = len(self._kafka.topic(topic).partitions)
            for partition in range(count) if is_for_all else (self._kafka.partition_of(topic, key),):
                sent.append(self._send(topic, partition, (key, value)))
                self._process.point("row sent")
        self._wait(sent)
        self._process.pause(0.5, 4)

    def _send(self, topic: str, partition: int, row: Row) -> _SentRow:
        sent = _SentRow(self._kafka, topic, partition, row)
        if sent.is_answered:
            sent.check()
        return sent

    def _wait(self, rows: list[_SentRow]) -> None:
        """Wait until all are appended, as `KafkaProducer` does for its delivery timeout."""
        for _ in range(_DELIVERY_MS // _ATTEMPT_MS):
            late = [row for row in rows if not row.is_answered]
            if not late:
                break
            self._process.wait(lambda late=late: all(row.is_answered for row in late), _ATTEMPT_MS)  # type: ignore[misc]
            for row in late:
                if not row.is_answered:
                    row.send()
        for row in rows:
            row.check()


class QueryParts(NamedTuple):
    """The parts of one start of a query; see `make_query`."""

    run: QueryRun
    source: Any


def make_query(
    name: str,
    config: Config,
    kafka: SimulatedKafka,
    tables: SimulatedTables,
    process: Any,
    faults: StoreFaults,
    poll: LogPoll,
    drop_checkpoint: Callable[[], None],
    mark_checkpoint: Callable[[Mapping[str, int]], None],
    clock: JobClock,
) -> QueryParts:
    """Create one start of a query, as `job.job` and `job.job_query` do."""
    job = config.job
    is_group = name == GROUP_COORDINATOR
    requests_topic = job.partition_requests_topic if is_group else job.group_requests_topic
    own_topic = job.group_requests_topic if is_group else job.partition_requests_topic
    producer = RowProducer(kafka, process, job.responses_topic, requests_topic, clock)
    writers = [tables.slow_writer(spec, faults) for spec in _TABLES[name]]
    later = SimulatedLater(process, process.world.random(f"later {process.name}"))
    steps = CommitSteps(writers, producer, lambda step, batch_id: process.point(f"{name} {step}"), _CHUNK_ROWS, later)
    steps.rules = effect_rules(config)
    hand_over = job_sources.hand_over()
    source: Any
    if is_group:
        source = job_sources.GroupTicks(kafka, tables, config, hand_over, poll, clock.local_ms)

        def on_lead() -> None:
            producer.send_probe(own_topic)
            write_static_configs(steps, config, clock.now().latest_ms)
    else:
        source = job_sources.LogOffsets(kafka, tables, config, hand_over, poll, clock.local_ms)

        def on_lead() -> None:
            producer.announce_leader()
            producer.send_probe(own_topic)

    run = QueryRun(
        name,
        steps,
        hand_over,
        on_lead,
        _upkeep(name, tables, faults, steps, config),
        job.upkeep_interval_commits,
        clock,
        drop_checkpoint=drop_checkpoint,
        mark_checkpoint=mark_checkpoint,
        refresh_clock=functools.partial(producer.refresh_clock, own_topic),
    )
    return QueryParts(run, source)


def _upkeep(
    name: str, tables: SimulatedTables, faults: StoreFaults, steps: CommitSteps, config: Config
) -> Callable[[], None]:
    """Run upkeep as `storage.upkeep.upkeep_worker` for the leader; a failed step is left to the next run."""
    upkeeps, is_of_states = [tables.upkeep_of(spec, faults) for spec in _TABLES[name]], name == SHARE_PARTITION
    kept = Upkeep(timedelta(milliseconds=config.job.tables_retention_ms), config.job.tables_local_versions)

    def upkeep() -> None:
        try:
            for each in upkeeps:
                each.run(steps.leader_epoch, kept)
            if is_of_states:
                tables.bases.write()
        except (FencedLeaderError, TableStoreError):
            return

    return upkeep


def make_lead(tables: SimulatedTables, faults: StoreFaults) -> JobLead:
    """Return the job's lead, which is not acquired yet."""
    led: list[TableSpec] = [spec for specs in _TABLES.values() for spec in specs]
    return JobLead(tables.slow_writer(SHARE_GROUP_JOB, faults), [tables.table(spec) for spec in led])


def refuse_stale_checkpoints(
    tables: SimulatedTables, checkpoints: Mapping[str, Checkpoint | None], path: Callable[[str], str]
) -> None:
    """Check as `job.job` before it acquires the lead; `path` is a query's checkpoint. Raises StaleCheckpointError."""
    for name, specs in _TABLES.items():
        checkpoint = checkpoints[name]
        writers = {spec.name: tables.slow_writer(spec, StoreFaults()) for spec in specs}
        first, newest_batch = writers[specs[0].name], functools.partial(_newest_batch, writers)
        if checkpoint is None and name == GROUP_COORDINATOR:
            reject_lost_commits(checkpoints[SHARE_PARTITION], first.last_info, newest_batch)
        if checkpoint is not None:
            query_id = checkpoint.query_id
            committed = first.newest_batch(query_id)
            reject_stale_checkpoint(checkpoint, first.last_info, committed, lambda id_: last_leader_epoch(tables, id_))
            beside = next(path(other) for other in _TABLES if other != name)
            reject_checkpoint_ahead(checkpoint, functools.partial(newest_batch, query_id), beside)


def _newest_batch(writers: Mapping[str, TableWriter], query_id: str, table: str) -> int:
    return writers[table].newest_batch(query_id)


def has_batch(tables: SimulatedTables, name: str, query_id: str, batch_id: int) -> bool:
    """Return whether step 2 of a query's batch is durable."""
    return tables.slow_writer(_TABLES[name][0], StoreFaults()).newest_batch(query_id) >= batch_id


def durable_positions(tables: SimulatedTables, name: str) -> Mapping[int, int]:
    """Return the offset below which all requests have durable effects, by partition of a query's request topic."""
    return positions_in(tables.slow_writer(_TABLES[name][0], StoreFaults()).last_info)


def lose_commits(tables: SimulatedTables, name: str, query_id: str, batch_id: int, lost: Sequence[int]) -> bool:
    """Remove the newest batches of each table of a query, as many as listed; of the first table one or none.

    Does nothing and returns False if that one was reported to anybody, or something else was committed since.
    """
    specs = _TABLES[name]
    info = tables.slow_writer(specs[0], StoreFaults()).last_info
    if info is None or (info["query_id"], info["batch_id"]) != (query_id, batch_id):
        return False
    outbox = unpack_json(info["outbox"])
    if lost[0] and (outbox["responses"] or outbox["requests"]):
        return False
    for spec, count in zip(specs, lost, strict=False):
        table = tables.table(spec)
        batches = [_newest(table.at(version), query_id) for version in range(table.version + 1)]
        kept = batch_id - 1 if spec is specs[0] else sorted({-1, *batches})[-1 - min(count, len({-1, *batches}) - 1)]
        if count and batches[-1] > kept:
            tables.lose_from(spec, next(version for version, batch in enumerate(batches) if batch > kept))
    return True


def _newest(table: VersionedTable, query_id: str) -> int:
    version = table.transaction_version(query_id)
    return -1 if version is None else version


def last_leader_epoch(tables: SimulatedTables, query_id: str) -> int:
    """Return the same as `storage.writing.leaders.last_leader_epoch`, from the tables in memory."""
    rows = tables.rows(SHARE_GROUP_JOB)
    return max((row["leader_epoch"] for row in rows if row["query_id"] == query_id), default=0)


def record_start(tables: SimulatedTables, name: str, steps: CommitSteps, now_ms: int) -> None:
    """Write the same as `storage.writing.leaders.record_leader`, into the tables in memory."""
    row = {
        "query": name,
        "leader_epoch": steps.leader_epoch,
        "query_id": steps.query_id,
        "application_id": "simulation",
        "positions": list(steps.positions.items()),
        "time": now_ms * 1000,
    }
    tables.write_from_outside(SHARE_GROUP_JOB, [row])
    tables.table(SHARE_GROUP_JOB).sync()
