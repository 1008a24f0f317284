"""Writes the tables of a sample hour of a share group, without Kafka and Spark.

    write_sample_history("/data/tables")

The tables are for notebooks, documentation and tests of queries. The job's own components write them: its operator
receives generated rows, in the format of the source and the request topics, and a simulated time. The operator's output
passes through the job's commit steps. The commits of the tables have the simulated times, so that time travel works as
well. The same arguments produce the same rows.

In this hour, records are written to a topic with two partitions, and three members process them. For ten minutes, twice
as many records are written. Some records are released at their first delivery, and some are rejected. A few records are
released at each delivery, up to the delivery limit. One member hangs for some minutes while it holds locks.
"""

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from sharegroup.config import GroupConfig, GroupOverrides, ShareGroupConfig
from sharegroup.core.operators import rows
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.share_partition_operator import SharePartitionOperator
from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.protocol.rows.share_partition_requests import (
    FETCH,
    AcknowledgeRequest,
    FetchRequest,
    SharePartitionRequest,
)
from sharegroup.storage.schemas import (
    ALL_TABLES,
    GROUP_COORDINATOR_TABLES,
    SHARE_PARTITION_TABLES,
    TableSpec,
    table_path,
)
from sharegroup.storage.writing.delta_table import DeltaTableWriter, open_or_create
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

GROUP_ID = "billing"
TOPIC = "invoices"
TOPIC_ID = "nTqM0Q7dRkyb5xJw2hVu3A"
PARTITIONS = 2
MEMBERS = (
    "5b0fbc8f-9d8c-4b62-8f0b-6f3d9a1c0a01",
    "5b0fbc8f-9d8c-4b62-8f0b-6f3d9a1c0a02",
    "5b0fbc8f-9d8c-4b62-8f0b-6f3d9a1c0a03",
)
STEP_MS = 20_000
_PER_STEP = (60, 45)  # records written to each partition
_MAX_RECORDS = 40
_STUCK = range(25, 33)  # the minutes in which the last member hangs
_BURST = range(10, 20)  # the minutes in which twice as many records are written

Held = dict[tuple[str, int], tuple[AcquiredRange, ...]]


class SampleTables:
    """Sample tables, and the job's operator for one group and topic, whose output is written to them.

    `commit` runs a micro-batch at the time `now_ms`, which the caller chooses. `records` determines when snapshots are
    written; by default, this is the same as in the job.
    """

    def __init__(self, tables_path: str, group_id: str, topic_id: str, records: SnapshotRules | None = None) -> None:
        self._path, self._group_id, self._topic_id = tables_path, group_id, topic_id
        self._records = records or SnapshotRules()
        self._state: str | None = None
        self._batch_id = -1
        self._responses: list[Mapping[str, Any]] = []
        for spec in ALL_TABLES:
            open_or_create(tables_path, spec)
        self._steps = self._lead(SHARE_PARTITION_TABLES)
        self._group_steps = self._lead(GROUP_COORDINATOR_TABLES)

    def _lead(self, specs: Sequence[TableSpec]) -> CommitSteps:
        steps = CommitSteps([DeltaTableWriter(self._path, spec) for spec in specs], self)
        steps.query_id = str(uuid.uuid4())  # as with a new checkpoint
        steps.become_leader()
        return steps

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        """Store the responses, which `commit` then returns. Requests are discarded.

        The commit steps call this method instead of a Kafka producer.
        """
        self._responses += responses

    def commit(self, lines: Sequence[str], now_ms: int) -> list[Mapping[str, Any]]:
        """Run a micro-batch: process the input rows `lines`, write the tables, and return the responses.

        `core.operators.rows` describes the format of the input rows.
        """
        shard = SharePartitionOperator("sample", self._group_id, self._topic_id, self._records, self._state)
        output = shard.run(lines, now_ms)
        self._state = shard.dump()
        self._batch_id += 1
        self._responses = []
        self._steps.commit(Batch.from_outputs(self._batch_id, [output]))
        return self._responses

    def commit_group(self, rows_of: Mapping[str, list[dict[str, Any]]], now_ms: int) -> None:
        """Write {table: rows} to the group coordinator's tables."""
        self._group_steps.commit(Batch(0, now_ms, tables=dict(rows_of)))

    def date_commits(self, first: Mapping[str, int], now_ms: int) -> dict[str, int]:
        """Set the times of the tables' new commits to `now_ms` plus a few ms, because the times must ascend.

        `first` is {table: its first version to change}, by default 0. Return the value of `first` for the next call, in
        which these commits are left out.
        """
        dated = dict(first)
        at_ms = now_ms
        for spec in ALL_TABLES:
            log = Path(table_path(self._path, spec)) / "_delta_log"
            version = dated.get(spec.name, 0)
            while (commit := log / f"{version:020}.json").exists():
                os.utime(commit, (at_ms / 1000, at_ms / 1000))
                at_ms += 1  # Delta requires ascending times of a table's commits
                version += 1
            dated[spec.name] = version
        return dated


class LogEnd(NamedTuple):
    """The log end offset of a topic-partition in Kafka at `time`. The tables do not contain this offset."""

    time: datetime
    topic: str
    partition: int
    log_end_offset: int


def write_sample_history(
    tables_path: str, end: datetime | None = None, minutes: int = 60, topic_id: str = TOPIC_ID
) -> list[LogEnd]:
    """Write a history of `minutes` minutes that ends at `end` (default: now) to tables in the directory `tables_path`.

    Return the log end offsets at each step of the history. If the sample topic exists in a broker, pass the id that the
    topic has in this broker as `topic_id`.
    """
    end_ms = round((end or datetime.now(UTC)).timestamp() * 1000) // 1000 * 1000
    now_ms = end_ms - round(timedelta(minutes=minutes).total_seconds() * 1000)
    config = GroupConfig.from_overrides(ShareGroupConfig(), GroupOverrides())
    tables = SampleTables(tables_path, GROUP_ID, topic_id, SnapshotRules(updates_per_snapshot=50))
    tables.commit_group(_group_rows(topic_id), now_ms)
    tables.commit([rows.encode_row(rows.CONFIG, json.dumps(config.to_json())), _load_row()], now_ms)
    dated = tables.date_commits({}, now_ms)
    hour = _Hour(now_ms, topic_id)
    log_ends: list[LogEnd] = []
    while now_ms < end_ms:
        now_ms += STEP_MS
        hour.handle_responses(tables.commit(hour.lines(now_ms), now_ms))
        dated = tables.date_commits(dated, now_ms)
        log_ends += hour.log_ends(now_ms)
    return log_ends


class _Hour:
    """Generates the operator's input rows for each step: log end offsets, fetches and acknowledgements."""

    def __init__(self, begin_ms: int, topic_id: str) -> None:
        self._begin_ms, self._topic_id = begin_ms, topic_id
        self._log_end_offsets = [0] * PARTITIONS
        self._held: Held = {}
        self._kafka_offset = 0

    def lines(self, now_ms: int) -> list[str]:
        """Return the input rows of the step that ends at `now_ms`."""
        minute = (now_ms - self._begin_ms) // 60_000
        factor = 2 if minute in _BURST else 1
        ends = zip(self._log_end_offsets, _PER_STEP, strict=True)
        self._log_end_offsets = [end + factor * written for end, written in ends]
        log = [[partition, 0, end] for partition, end in enumerate(self._log_end_offsets)]
        lines = [rows.encode_row(rows.LOG, json.dumps(log))]
        for member_id in MEMBERS:
            if member_id != MEMBERS[-1] or minute not in _STUCK:
                lines += [self._request_line(request, now_ms) for request in self._requests(member_id)]
        return [*lines, rows.encode_row(rows.TICK, str(now_ms))]

    def log_ends(self, now_ms: int) -> list[LogEnd]:
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        return [LogEnd(now, TOPIC, partition, end) for partition, end in enumerate(self._log_end_offsets)]

    def handle_responses(self, responses: Iterable[Mapping[str, Any]]) -> None:
        """Store the ranges that members acquired. They are acknowledged in the next step."""
        for response in responses:
            if response["type"] == FETCH:
                acquired = tuple(AcquiredRange(*item) for item in response["acquired"])
                self._held[response["member_id"], response["partition"]] = acquired

    def _requests(self, member_id: str) -> Iterable[SharePartitionRequest]:
        for partition in range(PARTITIONS):
            header = GROUP_ID, TOPIC, self._topic_id, partition, member_id, -1, "sample"
            held = self._held.pop((member_id, partition), ())
            if held:
                batches = tuple(map(_acknowledged, held))
                yield AcknowledgeRequest(self._next_id(), *header, batches=batches, acquired=held)
            yield FetchRequest(self._next_id(), *header, max_records=_MAX_RECORDS, max_wait_ms=STEP_MS // 2)

    def _next_id(self) -> str:
        """Return the id of the next request: its offset in the request topic, as text."""
        self._kafka_offset += 1
        return str(self._kafka_offset)

    def _request_line(self, request: SharePartitionRequest, now_ms: int) -> str:
        row = f"{request.partition}\t{request.id}\t{now_ms}\t{request.encode().decode()}"
        return rows.encode_row(rows.REQUEST, row)


def _acknowledged(acquired: AcquiredRange) -> AcknowledgementBatch:
    offsets = range(acquired.first_offset, acquired.last_offset + 1)
    types = tuple(_acknowledge_type(offset, acquired.delivery_count) for offset in offsets)
    return AcknowledgementBatch(acquired.first_offset, acquired.last_offset, types)


def _acknowledge_type(offset: int, delivery_count: int) -> AcknowledgeType:
    if offset % 211 == 0 or (offset % 23 == 0 and delivery_count == 1):
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if offset % 97 == 0 else AcknowledgeType.ACCEPT


def _load_row() -> str:
    loads = [
        {
            "topic": TOPIC,
            "partition": partition,
            "state_epoch": 0,
            "initializing": False,
            "start_offset": 0,
            "log": [0, 0],
            "header": None,
            "batches": [],
        }
        for partition in range(PARTITIONS)
    ]
    return rows.encode_row(rows.LOAD, json.dumps(loads))


def _group_rows(topic_id: str) -> dict[str, list[dict[str, Any]]]:
    return {
        "share_groups": [{"group_id": GROUP_ID, "group_epoch": 1, "assignment_epoch": 1, "group_state": "Stable"}],
        "share_group_members": [
            {
                "group_id": GROUP_ID,
                "member_id": member_id,
                "member_epoch": 1,
                "rack_id": None,
                "client_id": f"invoice-worker-{index}",
                "client_host": "127.0.0.1",
                "subscribed_topic_names": [TOPIC],
                "assignment": [{"topic": TOPIC, "topic_id": topic_id, "partitions": list(range(PARTITIONS))}],
            }
            for index, member_id in enumerate(MEMBERS)
        ],
        "share_partitions": [
            {
                "group_id": GROUP_ID,
                "topic": TOPIC,
                "topic_id": topic_id,
                "partition": partition,
                "status": "initialized",
                "state_epoch": 0,
                "start_offset": -1,
                "auto_offset_reset": "latest",
            }
            for partition in range(PARTITIONS)
        ],
    }
