"""Micro-batches of one member at some share-partitions without Spark: what the operator puts out, batch after batch."""

from __future__ import annotations

import json
from collections.abc import Collection

from sharegroup.config import GroupConfig, GroupOverrides, ShareGroupConfig
from sharegroup.core.operators import rows
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.share_partition_operator import SharePartitionOperator
from sharegroup.job.knowledge.shard_keys import ShardKey
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, FetchRequest, SharePartitionRequest
from sharegroup.types import AcknowledgementBatch

MEMBER_ID = "5b0fbc8f-9d8c-4b62-8f0b-6f3d9a1c0a01"
_PER_FETCH = 10


class SteadyBatches:
    """The real operator, with all `partitions` of a topic in one shard whose logs never end.

    Each call is a micro-batch; requests to nobody (`reply_to` "") so that no response is produced later.
    """

    def __init__(
        self,
        group_id: str,
        topic: str,
        partitions: Collection[int],
        now_ms: int,
        reply_to: str = "",
        topic_id: str = "topic-id",
    ) -> None:
        self._group_id, self._topic, self._partitions = group_id, topic, tuple(partitions)
        self._topic_id = topic_id
        self._key = ShardKey(group_id, self._topic_id, 0).encode()
        self._reply_to = reply_to
        self._state: str | None = None
        self._kafka_offset = 0
        self._rounds = 0
        self._now_ms = now_ms
        self.load = [self._config(), self._loads()]
        self.loaded = self._run(self.load, now_ms)

    def fetch(self, records: int, now_ms: int) -> Output:
        """The member fetches `records` at each share-partition."""
        self._now_ms = now_ms
        return self._run([self._fetch(p, records) for p in self._partitions], now_ms)

    def acknowledge(self, batch: AcknowledgementBatch, now_ms: int) -> Output:
        """The member acknowledges the same at each share-partition."""
        self._now_ms = now_ms
        return self._run([self._acknowledge(p, batch) for p in self._partitions], now_ms)

    def round(self, now_ms: int) -> Output:
        """One micro-batch of a steady member: it acknowledges what it has, and fetches."""
        self._now_ms = now_ms
        lines = []
        first = (self._rounds - 1) * _PER_FETCH
        for partition in self._partitions:
            if self._rounds:
                accepted = AcknowledgementBatch(first, first + _PER_FETCH - 1, (1,))
                lines.append(self._acknowledge(partition, accepted))
            lines.append(self._fetch(partition, _PER_FETCH))
        self._rounds += 1
        return self._run(lines, now_ms)

    def _run(self, lines: list[str], now_ms: int) -> Output:
        shard = SharePartitionOperator(self._key, self._group_id, self._topic_id, SnapshotRules(), self._state)
        output = shard.run(lines, now_ms)
        self._state = shard.dump()
        if any(response["error_code"] for response in output.responses):
            raise AssertionError(f"a request was refused: {output.responses}")
        return output

    def _fetch(self, partition: int, records: int) -> str:
        return self._row(FetchRequest(*self._named(partition), max_records=records))

    def _acknowledge(self, partition: int, batch: AcknowledgementBatch) -> str:
        return self._row(AcknowledgeRequest(*self._named(partition), batches=(batch,)))

    def _named(self, partition: int) -> tuple[str, str, str, str, int, str, int, str]:
        """What a request begins with; its id is its offset in its topic."""
        self._kafka_offset += 1
        topic = self._topic, self._topic_id, partition
        return str(self._kafka_offset), self._group_id, *topic, MEMBER_ID, 1, self._reply_to

    def _row(self, request: SharePartitionRequest) -> str:
        return rows.encode_row(rows.REQUEST, f"0\t{request.id}\t{self._now_ms}\t{request.encode().decode()}")

    def _config(self) -> str:
        config = GroupConfig.from_overrides(ShareGroupConfig(), GroupOverrides())
        return rows.encode_row(rows.CONFIG, json.dumps(config.to_json()))

    def _loads(self) -> str:
        fresh: dict[str, object] = {
            "topic": self._topic,
            "state_epoch": 0,
            "initializing": False,
            "start_offset": 0,
            "header": None,
            "batches": [],
        }
        loads = [{**fresh, "partition": partition, "log": [0, 1_000_000]} for partition in self._partitions]
        return rows.encode_row(rows.LOAD, json.dumps(loads))
