"""The source of the group_coordinator query: what it loads and ticks, and what its offsets contain."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from kafka import TopicPartition
from kafka.errors import KafkaConnectionError

from sharegroup.job.clock.handover import HandoverChange
from sharegroup.job.clock.handover_file import HandoverFileWriter
from sharegroup.kafka_clients.job_clock import ClockReading
from sharegroup.kafka_clients.steady_time import steady_ms
from sharegroup.spark.queries import share_groups_source
from sharegroup.spark.queries.share_groups_source import ShareGroupsReader
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES, SHARE_GROUPS, table_path
from sharegroup.storage.writing.delta_table import open_or_create

T0 = 1_700_000_000_000


class Brokers:
    """Replaces LogPoll: the request topic is empty, so everything in it has been read."""

    def __init__(self, *_: object) -> None:
        """Accept any arguments."""

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, 0)]

    def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    starts = ends

    def leader_epochs(self, _partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {}

    def epoch_ends(self, _epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {}


class Source:
    """The reader of one start; `read` returns the new rows after Spark's log has received the offsets."""

    def __init__(self, root: Path, knows_time: bool = True) -> None:
        self._writer = HandoverFileWriter(str(root / "hand_over"))
        if knows_time:
            self.tell({})
        self._reader = ShareGroupsReader(
            {
                "kafka": {},
                "tables": {spec.name: table_path(str(root), spec) for spec in GROUP_COORDINATOR_TABLES},
                "storage_options": {},
                "hand_over": str(root / "hand_over"),
                "requests_topic": "requests",
                "idle_poll_ms": 1_000,
                "block_ms": 0,
            }
        )
        self.offset = self._reader.initialOffset()

    def read(self) -> list[tuple[str, str]]:
        start = self.offset
        rows, end = self._reader.read(start)
        self.offset = json.loads(json.dumps(end))
        found = list(rows)
        assert list(self._reader.readBetweenOffsets(start, self.offset)) == found
        return [(key, row.partition("\t")[0]) for key, row in found]

    def tell(self, deadlines: dict[str, int | None]) -> None:
        self._writer.write(HandoverChange(deadlines, clock=ClockReading(steady_ms(), T0)))

    def close(self) -> None:
        self._reader._handover.close()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(share_groups_source, "LogPoll", Brokers)
    monkeypatch.setattr(share_groups_source, "set_up_log", lambda *_: None)
    for spec in GROUP_COORDINATOR_TABLES:
        open_or_create(str(tmp_path), spec)
    return tmp_path


def list_groups(root: Path, count: int) -> list[str]:
    """Write a number of groups to their table; return their ids in order."""
    names = [f"group-{number:04}" for number in range(count)]
    rows: list[dict[str, Any]] = [{"group_id": name, "group_epoch": 1, "group_state": "Empty"} for name in names]
    table = pa.Table.from_pylist(rows, schema=SHARE_GROUPS.schema)
    write_deltalake(table_path(str(root), SHARE_GROUPS), table, mode="overwrite")
    return names


def test_groups_are_loaded_once_ticked_once_and_then_when_they_are_due(root: Path) -> None:
    first, second = list_groups(root, 2)
    source = Source(root)
    assert source.read() == [(first, "load"), (second, "load"), (first, "tick"), (second, "tick")]
    assert source.read() == []
    source.tell({first: T0 - 1, second: T0 + 60_000})
    assert source.read() == [(first, "tick")]
    source.tell({first: None})
    assert source.read() == []
    source.close()


@pytest.mark.parametrize("wrong_s", [3_600, -3_600])
def test_a_wrong_wall_clock_ticks_nobody_and_delays_no_tick(
    root: Path, wrong_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (group,) = list_groups(root, 1)
    source = Source(root)
    source.read()
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + wrong_s)
    source.tell({group: T0 + 60_000})
    assert source.read() == []
    monkeypatch.setattr(time, "time", right)
    source.tell({group: T0 - 1})
    assert source.read() == [(group, "tick")]
    assert T0 <= source.offset["clock_ms"] < T0 + 60_000
    source.close()


def test_brokers_that_are_away_at_the_start_are_two_log_lines(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(root)

    def away(*_: object) -> list[TopicPartition]:
        raise KafkaConnectionError("away")

    with monkeypatch.context() as patch:
        patch.setattr(Brokers, "partitions_of", away)
        for _ in range(3):
            source.read()
    source.read()
    source.read()
    begin, end = caplog.messages
    assert begin == "the request topic cannot be polled; retrying: KafkaConnectionError: away"
    assert end.startswith("the request topic is polled again after ")
    source.close()


def test_no_key_is_ticked_before_the_brokers_time_is_known(root: Path) -> None:
    (group,) = list_groups(root, 1)
    source = Source(root, knows_time=False)
    assert source.read() == [(group, "load")]
    assert source.read() == []
    source.tell({})
    assert source.read() == [(group, "tick")]
    source.close()


def test_many_ticks_are_packed_and_do_not_stay_in_the_newest_offset(root: Path) -> None:
    names = list_groups(root, 1_000)
    source = Source(root)
    assert [key for key, kind in source.read() if kind == "tick"] == names
    assert len(json.dumps(source.offset)) < 8 * len(names)
    assert source.read() == []
    assert source.offset["tick_keys"] == []
    seq = source.offset["seq"]
    assert source.read() == []
    assert source.offset["seq"] == seq
    source.close()
