"""The source's polls of the logs while topics are unavailable, with scripted brokers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from kafka import TopicPartition

from sharegroup.config import Config
from sharegroup.job.clock.handover import Handover
from sharegroup.job.logs.partition_leaders import MAX_RETRY_MS
from sharegroup.job.logs.topic_identities import TopicDescription
from sharegroup.job.planning.batch_rows import OffsetsApartError
from sharegroup.kafka_clients.job_clock import ClockReading
from sharegroup.spark.queries import log_offsets_source
from sharegroup.spark.queries.log_offsets_source import LogOffsetsReader
from sharegroup.storage.following.config_poll import file_values
from sharegroup.storage.schemas import ALL_TABLES, SHARE_PARTITIONS, table_path
from sharegroup.storage.writing.delta_table import open_or_create

REQUESTS = "requests"


class Brokers:
    """Replaces LogPoll: two brokers, partition 0 on the first, the others on the second."""

    def __init__(self) -> None:
        self.end_offsets: dict[TopicPartition, int] = {TopicPartition(REQUESTS, 0): 0}
        #: Partitions that have a leader which does not respond.
        self.silent: set[TopicPartition] = set()
        self.asked: Counter[TopicPartition] = Counter()
        self.times: list[int] = []

    def poll(self, *_: object) -> Brokers:
        return self

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [partition for partition in self.end_offsets if partition.topic == topic]

    def describe(self, topics: Collection[str]) -> dict[str, TopicDescription | None]:
        leaders: dict[str, dict[int, int]] = {}
        for partition in self.end_offsets:
            leaders.setdefault(partition.topic, {})[partition.partition] = 1 + (partition.partition > 0)
        return {t: TopicDescription(f"{t}-id", leaders[t]) if t in leaders else None for t in topics}

    def ends(self, partitions: Collection[TopicPartition], read_committed: bool = False) -> dict[TopicPartition, int]:
        self.asked.update(partitions)
        return {partition: self.end_offsets[partition] for partition in partitions if partition not in self.silent}

    def starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def leader_epochs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {}

    def at_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        self.times += times.values()
        if min(times.values()) < 0:
            raise ValueError("The target time cannot be negative.")
        return {partition: 2 for partition in times if partition not in self.silent}

    def forget(self, topics: Collection[str]) -> None:
        """Do nothing, because nothing is stored."""


class Source:
    """The reader with a clock of its own; `read` returns the keys of the new rows."""

    def __init__(self, root: Path, brokers: Brokers, monkeypatch: pytest.MonkeyPatch, reset: str = "latest") -> None:
        self._root, self._now_ms, self._reset = str(root), 1_700_000_000_000, reset
        for spec in ALL_TABLES:
            open_or_create(self._root, spec)
        monkeypatch.setattr(log_offsets_source, "LogPoll", brokers.poll)
        monkeypatch.setattr(log_offsets_source, "steady_ms", lambda: self._now_ms)
        monkeypatch.setattr(log_offsets_source, "set_up_log", lambda *_: None)
        told = Handover(clock=ClockReading(self._now_ms, self._now_ms))
        monkeypatch.setattr(log_offsets_source, "HandoverFileReader", lambda _: SimpleNamespace(read=lambda: told))
        self._options: dict[str, Any] = {
            "kafka": {},
            "tables": {spec.name: table_path(self._root, spec) for spec in ALL_TABLES},
            "storage_options": {},
            "hand_over": str(root / "hand_over"),
            "shards": 1,
            "requests_topic": REQUESTS,
            "poll_ms": 200,
            "idle_poll_ms": 1_000,
            "linger_ms": 500,
            "block_ms": 0,
            "deletion_grace_ms": 10**9,
            "job_config": file_values(Config()),
            "tables_path": self._root,
        }
        self.start()
        self._offset = self._reader.initialOffset()
        self._ends: dict[str, dict[int, int]] = {}

    def start(self) -> None:
        """Start another process of the source."""
        self._reader = LogOffsetsReader(self._options)

    def list(self, *partitions: TopicPartition, start_offset: int = -1) -> None:
        """Set the content of `share_partitions`."""
        row = {"group_id": "g", "status": "initializing", "state_epoch": 1, "start_offset": start_offset}
        more = {"auto_offset_reset": self._reset, "time": datetime.now(UTC)}
        rows = [row | tp._asdict() | {"topic_id": f"{tp.topic}-id"} | more for tp in partitions]
        table = pa.Table.from_pylist(rows, schema=SHARE_PARTITIONS.schema)
        write_deltalake(table_path(self._root, SHARE_PARTITIONS), table, mode="overwrite")

    def again(self, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, str]]:
        """Return the rows of a batch again, from offsets in the form of Spark's log."""
        return list(self._reader.readBetweenOffsets(*json.loads(json.dumps([start, end]))))

    def read(self) -> set[str]:
        self._now_ms += 1_000  # every interval has passed, so everything is polled
        before = self._offset
        rows, self._offset = self._reader.read(before)
        found = list(rows)
        self.batch = before, self._offset, found
        rows = [(key, *text.split("\t", 1)) for key, text in found]
        for key, kind, body in rows:
            if kind in ("load", "log"):
                self._ends.setdefault(key, {}).update(_ends(kind, json.loads(body)))
        return {key for key, *_ in rows}

    def ends(self, topic: str) -> dict[int, int]:
        """Return, by partition, the log end that was last sent to the shard."""
        return self._ends.get(f"g\t{topic}-id\t0", {})


def _ends(kind: str, told: list[Any]) -> dict[int, int]:
    if kind == "log":
        return {partition: end for partition, _, end, *_ in told}
    return {load["partition"]: load["log"][1] for load in told if load["log"]}


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def source(tmp_path: Path, brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(tmp_path, brokers, monkeypatch)


def partitions(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


@pytest.mark.parametrize("topic", ["gone", "bad name", "t" * 300])
def test_a_topic_that_is_not_there_holds_up_no_other(source: Source, brokers: Brokers, topic: str) -> None:
    (orders,), (gone,) = partitions("orders", 0), partitions(topic, 0)
    brokers.end_offsets[orders] = 7
    source.list(orders, gone)
    assert source.read() == {"g\torders-id\t0"}
    brokers.end_offsets[orders] = 99
    assert source.read() == {"g\torders-id\t0"}
    assert source.ends("orders") == {0: 99}
    assert not brokers.asked[gone]


def test_more_partitions_than_the_topic_has(source: Source, brokers: Brokers) -> None:
    brokers.end_offsets |= dict.fromkeys(partitions("orders", 0), 7)
    source.list(*partitions("orders", 0, 1, 2, 3))
    source.read()
    brokers.end_offsets |= dict.fromkeys(partitions("orders", 0, 1), 99)
    for _ in range(11):
        source.read()
    assert source.ends("orders") == {0: 99, 1: 99}


def test_a_silent_leader_is_queried_rarely(source: Source, brokers: Brokers) -> None:
    moving, stuck = partitions("orders", 0, 1)
    brokers.end_offsets |= {moving: 7, stuck: 7}
    source.list(moving, stuck)
    source.read()
    brokers.silent.add(stuck)
    before = brokers.asked[stuck]
    for end in range(8, 68):
        brokers.end_offsets[moving] = end
        source.read()
        assert source.ends("orders") == {0: end, 1: 7}
    assert 5 < brokers.asked[stuck] - before <= 60_000 // MAX_RETRY_MS + 5
    brokers.silent.clear()
    brokers.end_offsets[stuck] = 50
    for _ in range(11):
        source.read()
    assert source.ends("orders") == {0: 67, 1: 50}


@pytest.fixture
def by_duration(tmp_path: Path, brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(tmp_path, brokers, monkeypatch, reset="by_duration:P36500D")


def test_a_duration_that_begins_before_1970(by_duration: Source, brokers: Brokers) -> None:
    brokers.end_offsets |= dict.fromkeys(partitions("orders", 0), 7)
    by_duration.list(*partitions("orders", 0))
    assert by_duration.read() == {"g\torders-id\t0"}
    assert brokers.times == [0]


def test_a_failed_look_up_by_time_delays_no_other_share_partition(
    by_duration: Source, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (orders,), (bills,) = partitions("orders", 1), partitions("bills", 0)
    brokers.end_offsets |= {orders: 7, bills: 7}
    by_duration.list(orders, bills)
    with monkeypatch.context() as at_the_end:
        at_the_end.setattr(
            brokers, "at_time", lambda times: brokers.silent.add(orders) or Brokers.at_time(brokers, times)
        )
        assert by_duration.read() == {"g\tbills-id\t0"}
    brokers.silent.clear()
    assert by_duration.read() | by_duration.read() == {"g\torders-id\t0"}


def test_a_start_without_brokers_loads_the_content_of_the_tables(source: Source, brokers: Brokers) -> None:
    """Spark's own Kafka source may bring requests at any moment, and they must find their share-partitions."""
    orders = partitions("orders", 0)
    brokers.silent.update(brokers.end_offsets)
    source.list(*orders, start_offset=5)
    assert source.read() == {"g\torders-id\t0"}
    assert source.read() == set()
    brokers.silent.clear()
    brokers.end_offsets |= dict.fromkeys(orders, 7)
    assert source.read() == {"g\torders-id\t0"}
    assert source.ends("orders") == {0: 7}


@pytest.mark.parametrize("is_executor", [True, False])
def test_a_batch_in_which_the_source_died_is_run_again(source: Source, brokers: Brokers, is_executor: bool) -> None:
    """Tables and logs have changed, but the batch is the same, and its rows are not sent again."""
    (orders, more) = partitions("orders", 0, 1)
    brokers.end_offsets |= {orders: 7, more: 8}
    source.list(orders)
    source.read()
    start, end, found = source.batch
    source.list(orders, more)
    brokers.end_offsets[orders] = 99
    source.start()
    again = source.again(start, end)
    assert again == found
    if is_executor:
        source.start()
    assert source.read() == {"g\torders-id\t0"}
    kinds = [row.split("\t")[0] for _, row in source.batch[2]]
    assert kinds == ["config", "load", "log", "tick"]
    assert source.ends("orders") == {0: 99, 1: 8}


def test_between_two_offsets_is_one_batch(source: Source, brokers: Brokers) -> None:
    (orders,) = partitions("orders", 0)
    brokers.end_offsets[orders] = 7
    source.list(orders)
    source.read()
    start, end, _ = source.batch
    brokers.end_offsets[orders] = 9
    source.read()
    later = source.batch[1]
    assert source.again(end, end) == []
    with pytest.raises(OffsetsApartError):
        source.again(start, later)
