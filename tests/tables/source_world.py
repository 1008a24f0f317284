"""The environment of the share_partition query's source: tables, brokers and configs in memory, time as an argument."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaConnectionError

from sharegroup.config import Config
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset, ShareGroupOffsetHeader
from sharegroup.job.clock.handover import Handover, HandoverChange
from sharegroup.job.knowledge.source_offset import SourceOffset
from sharegroup.job.logs.topic_identities import TopicDescription
from sharegroup.job.planning.batch_rows import rows_between
from sharegroup.job.planning.log_offsets_planner import LogOffsetsPlanner, PlannerSettings
from sharegroup.kafka_clients.job_clock import ClockReading
from sharegroup.storage.following.share_partition_row import SharePartitionChanges, SharePartitionRow
from sharegroup.storage.reading.fences import Fence
from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_PARTITIONS
from sharegroup.types import SharePartitionKey, WaitsFor

GRACE_MS = 30_000
OLD, NEW = SharePartitionKey("g", "orders", "old", 0), SharePartitionKey("g", "orders", "new", 0)
BILLS = SharePartitionKey("g", "bills", "bills-id", 0)
SHARD = "g\told\t0"
CONFIG = Config().group_config("g").to_json()
EARLIEST = CONFIG | {"auto_offset_reset": "earliest"}
COMMITTED = CONFIG | {"isolation_level": "read_committed"}


def row(key: SharePartitionKey, new: bool = False, reset: str | None = None, **values: Any) -> SharePartitionRow:
    return SharePartitionRow(key, new, 1, -1, auto_offset_reset=reset)._replace(**values)


def state(start_offset: int = 3, epoch: int = 1) -> ShareGroupOffset:
    return ShareGroupOffset(ShareGroupOffsetHeader(0, epoch, 1, start_offset, 0, 0, 0, 1), ())


NO_CHANGE = HandoverChange()


class World:
    """The source's environment and offset; `read` runs one poll, and returns the rows as (shard, kind, body)."""

    def __init__(
        self,
        *rows: SharePartitionRow,
        states: Mapping[SharePartitionKey, ShareGroupOffset] | None = None,
        shards: int = 1,
    ) -> None:
        self.versions: list[list[SharePartitionRow]] = [list(rows)]
        #: The states. An initialized share-partition has one, unless it is `lost`.
        self.saved = dict(states or {})
        self.lost: set[SharePartitionKey] = set()
        #: By group, the processes that have replaced others.
        self.fenced: dict[str, list[Fence]] = {}
        #: By name: the id and (log start, log end, last stable offset); None for a topic that does not exist.
        self.topics: dict[str, tuple[str, tuple[int, int, int]] | None] = {"orders": ("old", (0, 100, 90))}
        #: By topic, where brokers report it: the leader's epoch, and the end of each epoch.
        self.epochs: dict[str, int] = {}
        self.epoch_ends_of: dict[str, dict[int, int]] = {}
        self.epochs_asked: list[tuple[str, int]] = []
        self.is_away = False
        self.tells_nothing = False
        self.described: list[list[str]] = []
        self.asked: list[tuple[str, bool]] = []
        self.of_group: Mapping[str, Any] = CONFIG
        self.of_group_polled: Mapping[str, Any] | None = None
        self.now_ms = 1_700_000_000_000
        self.requested: set[str] = set()
        self.offset = SourceOffset()
        #: The (shard, row) pairs of all batches so far, as the operator receives them.
        self.rows: list[tuple[str, str]] = []
        self.start(shards)

    def start(self, shards: int = 1) -> None:
        """Start another process of the source."""
        settings = PlannerSettings(shards=shards, poll_ms=200, idle_poll_ms=5_000, deletion_grace_ms=GRACE_MS)
        self._planner = LogOffsetsPlanner(self, self, self, settings)

    # -- the protocols ---------------------------------------------------------------------------------------------

    def newest_version(self, table: str) -> int:
        return {SHARE_PARTITIONS.name: len(self.versions) - 1, SHARE_GROUP_STATE.name: 7}[table]

    def share_partitions(self, version: int) -> list[SharePartitionRow]:
        return self.versions[version]

    def changes(self, before: int, after: int) -> SharePartitionChanges:
        was = {row.key: row for row in self.versions[before]} if before >= 0 else {}
        is_ = {row.key: row for row in self.versions[after]}
        return SharePartitionChanges(
            [row for key, row in is_.items() if was.get(key) != row], [key for key in was if key not in is_]
        )

    def states(self, version: int, keys: Collection[SharePartitionKey]) -> dict[SharePartitionKey, ShareGroupOffset]:
        assert version == 7
        initialized = {row.key: row.state_epoch for row in self.versions[-1] if not (row.initializing or row.deleting)}
        found = {key: state(epoch=epoch) for key, epoch in initialized.items()} | self.saved
        return {key: found[key] for key in keys if key in found and key not in self.lost}

    def fences(self, group_ids: Collection[str]) -> dict[str, list[Fence]]:
        return {group_id: found for group_id, found in self.fenced.items() if group_id in group_ids}

    def in_force(self, now_ms: int, fresh: bool = False) -> Mapping[str, Mapping[str, Any]]:
        if fresh or self.of_group_polled is None:
            self.of_group_polled = self.of_group
        return {"": CONFIG, "g": self.of_group_polled}

    def describe(self, topics: Collection[str]) -> dict[str, TopicDescription | None]:
        self._check_there()
        if self.tells_nothing:
            raise KafkaConnectionError("no metadata")
        self.described.append(sorted(topics))
        known = {name: self.topics.get(name) for name in topics}
        return {
            name: TopicDescription(topic[0], {0: 1, 1: 1, 2: 1}) if topic else None for name, topic in known.items()
        }

    def ends(self, partitions: Collection[TopicPartition], read_committed: bool = False) -> dict[TopicPartition, int]:
        self.asked += [(partition.topic, read_committed) for partition in partitions]
        return {partition: self._log(partition)[1 + read_committed] for partition in partitions}

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._log(partition)[0] for partition in partitions}

    def leader_epochs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {p: self.epochs[p.topic] for p in partitions if p.topic in self.epochs}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.epochs_asked += [(partition.topic, epoch) for partition, epoch in epochs.items()]
        ends = {p: self.epoch_ends_of.get(p.topic, {}).get(epoch) for p, epoch in epochs.items()}
        return {partition: end for partition, end in ends.items() if end is not None}

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {partition: 42 for partition in times if self._log(partition)}

    def forget(self, topics: Collection[str]) -> None:
        """Do nothing, because nothing is stored."""

    def _log(self, partition: TopicPartition) -> tuple[int, int, int]:
        self._check_there()
        topic = self.topics[partition.topic]
        assert topic is not None
        return topic[1]

    def _check_there(self) -> None:
        if self.is_away:
            raise KafkaConnectionError("nobody there")

    # -- what a test does ------------------------------------------------------------------------------------------

    def list(self, *rows: SharePartitionRow) -> None:
        self.versions.append(list(rows))

    def read(
        self, after_ms: int = 200, safe_ms: int = 0, waiting: Collection[str] = (),
        change: HandoverChange = NO_CHANGE, **told: Any,
    ) -> list[tuple[str, str, Any]]:  # fmt: skip
        self.now_ms += after_ms
        clock = ClockReading(self.now_ms, self.now_ms)
        told_of = Handover(waiting=dict.fromkeys(waiting, WaitsFor.RECORDS), clock=clock, **told)
        told_of.apply(change)
        after = self._planner.next_offset(self.offset, told_of, self.requested, safe_ms, self.now_ms)
        if after is None:
            return []
        before, self.offset = self.offset, SourceOffset.from_json(json.loads(json.dumps(after.to_json())))
        found = list(rows_between(before, self.offset, self.states))
        self.rows += found
        return [(key, *decoded(text)) for key, text in found]

    def logs(self) -> dict[str, list[Any] | None]:
        """Return the log offsets of partition 0 that were last sent to each shard."""
        told: dict[str, list[Any] | None] = {}
        for key, text in self.rows:
            kind, body = decoded(text)
            for partition, log in reached(kind, body):
                if partition == 0:
                    told[key] = log
        return told

    def read_for(self, ms: int) -> list[tuple[str, str, Any]]:
        """Poll every 200 ms for the given time, and return all rows."""
        return [found for _ in range(ms // 200) for found in self.read()]


def decoded(text: str) -> tuple[str, Any]:
    kind, body = text.split("\t", 1)
    return kind, json.loads(body)


def loads(rows: list[tuple[str, str, Any]]) -> list[dict[str, Any]]:
    return [load for _, kind, body in rows if kind == "load" for load in body]


def reached(kind: str, body: Any) -> list[tuple[int, list[Any] | None]]:
    """Return the (partition, log offsets) pairs in a row."""
    if kind == "load":
        return [(load["partition"], load["log"]) for load in body]
    return [(partition, log) for partition, *log in body] if kind == "log" else []
