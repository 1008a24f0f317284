"""Recovery from the tables equals the operator's state: rows are written, read with Arrow, folded, and loaded again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.config import GroupConfig
from sharegroup.core.operators.log_offsets import PartitionLog
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.job.commit.table_rows import stamp_rows
from sharegroup.job.knowledge.source_offset import SourceOffset, SourceRow
from sharegroup.job.planning.batch_rows import rows_between
from sharegroup.storage.reading.state_table import fold_states
from sharegroup.storage.schemas import SHARE_GROUP_STATE
from sharegroup.types import SharePartitionKey
from tests.unit.core.operators.shard_driver import GROUP, KEY, T0, TOPIC, TOPIC_ID, ShardDriver
from tests.unit.core.operators.shard_strategies import AT_ONCE, LIMITS, LOG_AND_LOADS, STANDING, Batch, Script, batches

PARTITION = SharePartitionKey(GROUP, TOPIC, TOPIC_ID, 0)
RECORDS = st.builds(SnapshotRules, st.sampled_from([0, 1, 2, 500]), st.sampled_from([200, 300_000]))


class StateTable:
    """The rows that the batches of one leader append to share_group_state."""

    def __init__(self, leader_epoch: int = 1) -> None:
        self._leader_epoch = leader_epoch
        self._batches: list[pa.Table] = []

    def append(self, rows: Iterable[dict[str, Any]], now_ms: int) -> None:
        batch_id = len(self._batches)
        stamp = {"leader_epoch": self._leader_epoch, "batch_id": batch_id, "now_ms": now_ms}
        self._batches.append(pa.Table.from_pylist(stamp_rows(rows, **stamp), schema=SHARE_GROUP_STATE.schema))

    def state(self) -> ShareGroupOffset:
        """Return the rows that a new leader reads; the order of the files has no meaning."""
        return fold_states(pa.concat_tables(reversed(self._batches)))[PARTITION]


def run(shard: ShardDriver, table: StateTable, lines: Iterable[str], at: int) -> None:
    output = shard.batch(*lines, at=at)
    table.append(output.tables.get("share_group_state", ()), output.now_ms)


def comparable(output: Output) -> Output:
    """Return the state without error texts, which contain fetched ranges and are not durable."""
    for response in output.responses:
        response["error_message"] = None
    return output


@settings(max_examples=25, deadline=None)
@given(batches(st.one_of(STANDING, STANDING, STANDING, LOG_AND_LOADS)), RECORDS, st.integers(2, 6))
def test_the_table_equals_the_operators_state(scripted: list[Batch], records: SnapshotRules, limit: int) -> None:
    script, shard, table = Script(), ShardDriver(records), StateTable()
    run(shard, table, script.first(delivery_count_limit=limit), at=0)
    for batch in scripted:
        steps = [step for step in batch.steps if step.kind not in ("unload", "load")]
        run(shard, table, script.rows(batch._replace(steps=steps)), at=script.now)
    led, read = shard.led(), table.state()
    assert list(read.state_batches) == led.window.state_batches()
    known = led.header._replace(leader_epoch=1, leader_epoch_fence=1)  # the writer stamps the leader epoch
    assert read.header == known
    assert read.header.start_offset == led.window.start_offset
    assert read.header.delivery_complete_count == led.window.delivery_complete_count


@settings(max_examples=25, deadline=None)
@given(batches(AT_ONCE), batches(AT_ONCE, most=4))
def test_a_shard_loaded_from_the_table_continues_as_the_old_one(before: list[Batch], after: list[Batch]) -> None:
    """Throttling is disabled, because its unit (the size of one fetch) is not durable, as in Kafka."""
    script, old, table = Script(), ShardDriver(), StateTable()
    values = {"delivery_count_limit": 100}
    run(old, table, script.first(**values), at=0)
    for batch in before:
        run(old, table, script.rows(batch), at=script.now)

    new = ShardDriver()
    window = old.led().window
    load = {
        "topic": TOPIC,
        "partition": 0,
        "state_epoch": 1,
        "initializing": False,
        "log": list(PartitionLog(window.log_start_offset, window.log_end_offset)),
        "start_offset": 0,
    }
    config = GroupConfig.from_json(values | LIMITS).to_json()
    told = (SourceRow("config", config, (KEY,)), SourceRow("load", [load], (KEY,)))
    end = SourceOffset(seq=1, shards=1, partitions_version=1, state_version=1, rows=told)
    rows = list(rows_between(SourceOffset(), end, lambda version, keys: {PARTITION: table.state()}))
    assert {key for key, _ in rows} == {KEY}
    output = new.batch(*[row for _, row in rows], at=script.now)
    assert (output.tables, output.responses, output.requests) == ({}, [], [])
    assert new.window() == old.window()

    for batch in after:
        lines = script.rows(batch)
        assert comparable(new.batch(*lines, at=script.now)) == comparable(old.batch(*lines, at=script.now))


def test_a_deleted_share_partition_starts_again() -> None:
    def row(record_type: str, snapshot_epoch: int, start_offset: int) -> dict[str, Any]:
        return {
            **PARTITION._asdict(),
            "record_type": record_type,
            "snapshot_epoch": snapshot_epoch,
            "state_epoch": 1,
            "start_offset": start_offset,
            "end_offset": start_offset,
            "delivery_complete_count": 0,
            "state_batches": [],
        }

    table = StateTable()
    other = PARTITION._replace(partition=1)._asdict()
    table.append([row("ShareSnapshot", 4, 10), row("ShareSnapshot", 2, 30) | other], T0)
    assert table.state().header.start_offset == 10
    table.append([row("Tombstone", -1, -1)], T0 + 1)
    table.append([row("ShareSnapshot", 0, 20)], T0 + 2)
    table.append([row("ShareUpdate", 0, 25)], T0 + 3)
    header = table.state().header
    assert (header.snapshot_epoch, header.start_offset, header.updates_since_snapshot) == (0, 25, 1)
    assert header.last_snapshot_ms == T0 + 2
