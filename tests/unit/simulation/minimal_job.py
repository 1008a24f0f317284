"""A share-group job without its sources, tables and faults: the two operators over the simulated topics, 250 ms each.

It is what gateways and clients need to be tested by themselves.
"""

from __future__ import annotations

import json
from typing import Any

from sharegroup.config import Config
from sharegroup.core.operators import rows
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_group.share_group_operator import ShareGroupOperator
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.share_partition_operator import SharePartitionOperator
from sharegroup.protocol.rows.broadcasts import BROADCAST_KEY
from sharegroup.protocol.rows.share_partition_requests import decode_share_partition_request
from tests.simulation.brokers.kafka_log import LogRecord, PartitionLog, SimulatedKafka
from tests.simulation.trace import Trace
from tests.simulation.virtual_clock import Scheduler

BATCH_MS = 250
GROUP_REQUESTS, PARTITION_REQUESTS, RESPONSES = (
    "__share_group_requests", "__share_partition_requests", "__share_group_responses"
)  # fmt: skip

Row = tuple[int, int, LogRecord]


class MinimalJob:
    """Runs both operators over what has come, every BATCH_MS. `rejected` are the rows that it refused though nobody
    waited for the answer, `transitions` the rows of delivery_log."""

    def __init__(self, clock: Scheduler, trace: Trace, kafka: SimulatedKafka, config: Config) -> None:
        self._clock, self._trace, self._kafka, self._config = clock, trace, kafka, config
        for topic in (GROUP_REQUESTS, PARTITION_REQUESTS, RESPONSES):
            kafka.create_topic(topic, 1)
        self._positions = {GROUP_REQUESTS: 0, PARTITION_REQUESTS: 0}
        self._groups: dict[str, str | None] = {}
        self._shards: dict[tuple[str, str], str | None] = {}
        self._outputs: dict[object, Output] = {}
        #: {(group id, topic id): {partition: the fields of `LogOffsets`}}
        self._logs: dict[tuple[str, str], dict[int, tuple[int, int, int]]] = {}
        self._loads: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.set_configs: dict[str, dict[str, str]] = {}
        self.rejected: list[str] = []
        self.transitions: list[dict[str, Any]] = []
        clock.after(BATCH_MS, self._batch)

    # -- what gateways read from the tables ------------------------------------------------------------------------

    async def listings(self) -> tuple[Any, ...]:
        return ()

    async def describe(self, group_ids: Any) -> dict[str, Any]:
        return {}

    async def offsets(self, group_ids: Any) -> dict[str, Any]:
        return {}

    async def configs(self) -> dict[str, dict[str, str]]:
        return {group_id: dict(values) for group_id, values in self.set_configs.items()}

    # -- batches ---------------------------------------------------------------------------------------------------

    def _batch(self) -> None:
        self._run_groups()
        self._run_shards()
        self._clock.after(BATCH_MS, self._batch)

    def _run_groups(self) -> None:
        lines: dict[str, list[str]] = {}
        for line, record in self._new(GROUP_REQUESTS):
            lines.setdefault((record.key or b"").decode(), []).append(line)
        for group_id in self._due(self._groups):
            lines.setdefault(group_id, [])
        for group_id, found in lines.items():
            group = ShareGroupOperator(group_id, self._config, self._groups.get(group_id))
            output = group.run([*found, self._tick()], self._clock.now_ms)
            self._groups[group_id], self._outputs[group_id] = group.dump(), output
            self._publish(output)

    def _run_shards(self) -> None:
        lines: dict[tuple[str, str], list[str]] = {}
        for line, record in self._new(PARTITION_REQUESTS):
            request = decode_share_partition_request(record.value.decode())
            lines.setdefault((request.group_id, request.topic_id), []).append(line)
        for key, loads in self._loads.items():
            if loads:
                lines.setdefault(key, []).append(rows.encode_row(rows.LOAD, json.dumps(loads)))
        self._loads = {}
        for key in self._due(self._shards):
            lines.setdefault(key, [])
        for key in self._logs:
            moved = self._moved(key)
            if moved and (key in lines or self._waits(key)):
                lines.setdefault(key, []).append(rows.encode_row(rows.LOG, json.dumps(moved)))
        for key, found in lines.items():
            config = rows.encode_row(rows.CONFIG, json.dumps(self._group_config(key[0]).to_json()))
            shard = SharePartitionOperator("\t".join([*key, "0"]), *key, SnapshotRules(), self._shards.get(key))
            output = shard.run([config, *found, self._tick()], self._clock.now_ms)
            self._shards[key], self._outputs[key] = shard.dump(), output
            self._publish(output)

    def _new(self, topic: str) -> list[tuple[str, LogRecord]]:
        log = self._kafka.log(topic, 0)
        found = [
            (rows.encode_row(rows.REQUEST, f"0\t{r.offset}\t{append_ms}\t{r.value.decode()}"), r)
            for append_ms, r in log.records(self._positions[topic])
        ]
        self._positions[topic] = log.log_end_offset
        return found

    def _tick(self) -> str:
        return rows.encode_row(rows.TICK, str(self._clock.now_ms))

    def _due(self, keys: Any) -> list[Any]:
        outputs = ((key, self._outputs.get(key)) for key in keys)
        return [k for k, o in outputs if o and o.deadline_ms is not None and o.deadline_ms < self._clock.now_ms]

    def _waits(self, key: tuple[str, str]) -> bool:
        return key in self._outputs and self._outputs[key].waiting

    def _group_config(self, group_id: str) -> Any:
        return self._config.effective_group_config(group_id, self.set_configs.get(group_id, {})).config

    def _moved(self, key: tuple[str, str]) -> list[list[int]]:
        moved = []
        for partition, before in self._logs[key].items():
            topic = self._kafka.topic_by_id(key[1])
            assert topic is not None
            now = _offsets(topic.partitions[partition])
            if now != before:
                self._logs[key][partition] = now
                moved.append([partition, *now])
        return moved

    def _publish(self, output: Output) -> None:
        for row in output.tables.get("share_partitions", ()):
            if row["status"] == "initializing":
                self._load(row)
        for row in output.tables.get("share_group_configs", ()):
            configs = self.set_configs.setdefault(row["group_id"], {})
            configs.pop(row["config_name"], None)
            if row["config_source"] == "DYNAMIC_GROUP_CONFIG" and not row.get("_deleted"):
                configs[row["config_name"]] = row["config_value"]
        self.transitions += output.tables.get("delivery_log", ())
        for _, offset, problem in output.rejected:
            self.rejected.append(problem)
            self._trace.add("job", f"refuses the row at {offset}: {problem}")
        for key, value in output.requests:
            topic = PARTITION_REQUESTS if "\t" in key or key == BROADCAST_KEY else GROUP_REQUESTS
            self._kafka.append(topic, 0, [(key.encode(), value.encode())])
        for response in output.responses:
            self._kafka.append(RESPONSES, 0, [(response["reply_to"].encode(), json.dumps(response).encode())])

    def _load(self, row: dict[str, Any]) -> None:
        key, partition = (row["group_id"], row["topic_id"]), row["partition"]
        ends = _offsets(self._kafka.topic(row["topic"]).partitions[partition])
        start = row["start_offset"]
        if start < 0:
            start = ends[0] if row["auto_offset_reset"] == "earliest" else ends[1]
        self._logs.setdefault(key, {})[partition] = ends
        self._loads.setdefault(key, []).append(
            {
                "topic": row["topic"], "partition": partition, "state_epoch": row["state_epoch"],
                "initializing": True, "start_offset": start,
                "log": ends, "header": None, "batches": [],
            }
        )  # fmt: skip


def _offsets(log: PartitionLog) -> tuple[int, int, int]:
    return log.log_start_offset, log.log_end_offset, log.last_stable_offset
