"""The views compared with the state that the job recovers, on generated histories."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings

from sharegroup.config import GroupConfig, GroupOverrides, ShareGroupConfig
from sharegroup.core.operators import rows
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.share_coordinator.fold import fold_records
from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReserveRequest, UnreserveRequest
from sharegroup.protocol.rows.share_partition_requests import (
    AcknowledgeRequest,
    FetchRequest,
    ReleaseMemberRequest,
    SharePartitionRequest,
    UnacquireRequest,
)
from sharegroup.spark.views import NameTakenError, create_views, in_flight_sql, share_group_offsets_sql
from sharegroup.storage import InFlightRange
from sharegroup.storage.reading.state_table import read_states
from sharegroup.testing.samples.sample_history import SampleTables
from sharegroup.types import AcknowledgementBatch, OffsetRange, RecordState, SharePartitionKey, StateBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANGE_SCHEMA = (
    "group_id STRING, topic STRING, topic_id STRING, partition INT, first_offset LONG, last_offset LONG, state STRING, "
    "delivery_count SMALLINT, member_id STRING, lock_deadline TIMESTAMP"
)
ROW_SCHEMA = (
    "group_id STRING, topic STRING, topic_id STRING, partition INT, record_type STRING, snapshot_epoch INT, "
    "state_epoch INT, leader_epoch INT, start_offset LONG, end_offset LONG, delivery_complete_count LONG, "
    "state_batches ARRAY<STRUCT<first_offset: LONG, last_offset: LONG, delivery_state: TINYINT, "
    "delivery_count: SMALLINT, member_id: STRING, "
    "lock_deadline: TIMESTAMP>>, batch_id LONG, time TIMESTAMP"
)
#: An example is a query of seconds with many histories; shrinking it would take minutes.
SPARK_EXAMPLES = settings(
    max_examples=3,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.large_base_example],
)
MAX_OFFSET = 25
#: The end offset of drawn records, which have no end.
NO_END = 1_000_000
MEMBERS = ("m1", "m2")


def at(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def folded_ranges(spark: SparkSession, states: dict[SharePartitionKey, ShareGroupOffset]) -> DataFrame:
    ranges = [
        (*key, *batch[:2], InFlightRange(*key, *batch).state_name, *batch[3:5], at(batch.lock_deadline_ms))
        for key, folded in states.items()
        for batch in folded.state_batches
    ]
    return spark.createDataFrame(ranges, RANGE_SCHEMA)


def assert_same_ranges(actual: DataFrame, expected: DataFrame) -> None:
    assert_df_equality(actual, expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True)


# -- records as the coordinator could write them -----------------------------------------------------------------------


@st.composite
def state_batches(draw: st.DrawFn, start_offset: int) -> tuple[StateBatch, ...]:
    """Return sorted, disjoint ranges, as in one record."""
    offsets = sorted(draw(st.sets(st.integers(start_offset, start_offset + MAX_OFFSET), max_size=6)))
    batches = []
    for first, last in zip(offsets[::2], offsets[1::2], strict=False):
        state = draw(st.sampled_from(RecordState))
        owner = (draw(st.sampled_from(MEMBERS)), draw(st.sampled_from([10_000, 20_000])))
        batches.append(
            StateBatch(first, last, state, draw(st.integers(0, 2)), *(owner if state is RecordState.ACQUIRED else ()))
        )
    return tuple(batches)


@st.composite
def histories(draw: st.DrawFn) -> list[ShareGroupStateRecord]:
    """Return snapshots, updates and tombstones of one share-partition, mixed with remains of superseded snapshots."""
    records: list[ShareGroupStateRecord] = []
    epoch, start, known = -1, 0, False
    for _ in range(draw(st.integers(0, 9))):
        kind = draw(st.sampled_from([*[RecordKind.UPDATE] * 6, *[RecordKind.SNAPSHOT] * 2, RecordKind.TOMBSTONE]))
        start += draw(st.integers(0, 5))
        batches = draw(state_batches(start))
        key = SharePartitionKey("g", "t", "id-t", 0)
        if kind is RecordKind.TOMBSTONE:
            records.append(ShareGroupStateRecord(kind, key))
            epoch, start, known = -1, 0, False
        elif kind is RecordKind.SNAPSHOT or not known:
            epoch, known = epoch + 1, True
            records.append(ShareGroupStateRecord(RecordKind.SNAPSHOT, key, epoch, 0, 0, start, 0, batches))
        else:
            stale = draw(st.integers(0, 9)) == 0
            sent = draw(st.sampled_from([start, -1]))
            records.append(
                ShareGroupStateRecord(kind, key, epoch - stale, -1, -1, sent, draw(st.integers(-1, 3)), batches)
            )
    return records


def table_row(record: ShareGroupStateRecord, key: SharePartitionKey, position: int) -> tuple[Any, ...]:
    kinds = {"SNAPSHOT": "ShareSnapshot", "UPDATE": "ShareUpdate", "TOMBSTONE": "Tombstone"}
    batches = [
        (first, last, int(state), count, member_id, at(deadline_ms))
        for first, last, state, count, member_id, deadline_ms in record.state_batches
    ]
    leader_epoch, batch_id = 1 + position // 4, 100 - 50 * (position // 4) + position  # a new leader's ids are lower
    return (
        *key, kinds[record.kind.value], record.snapshot_epoch, record.state_epoch, leader_epoch, record.start_offset,
        NO_END, record.delivery_complete_count, batches, batch_id, at(position),
    )  # fmt: skip


@SPARK_EXAMPLES
@given(st.lists(histories(), min_size=40, max_size=40))
def test_in_flight_is_the_fold_of_the_records(spark: SparkSession, drawn: list[list[ShareGroupStateRecord]]) -> None:
    """Each history is one share-partition, all in one query, whose rows are unordered."""
    table, records = [], []
    for partition, history in enumerate(drawn):
        # Every second one belongs to the topic that had the name before.
        key = SharePartitionKey("g", "t", f"id-{partition % 2}", partition // 2)
        records += [record._replace(key=key) for record in history]
        table += [table_row(record, key, position) for position, record in enumerate(history)]
    spark.createDataFrame(table[::-1], ROW_SCHEMA).createOrReplaceTempView("histories")
    states = fold_records(records)
    assert_same_ranges(spark.sql(in_flight_sql("histories")), folded_ranges(spark, states))
    offsets = spark.sql(share_group_offsets_sql("histories")).collect()
    columns = ("start_offset", "delivery_complete_count", "state_epoch", "snapshot_epoch")
    actual = {(row["topic_id"], row["partition"]): tuple(row[column] for column in columns) for row in offsets}
    assert actual == {
        (key.topic_id, key.partition): tuple(getattr(state.header, column) for column in columns)
        for key, state in states.items()
    }


# -- records as the operator writes them -------------------------------------------------------------------------------


@st.composite
def requests(draw: st.DrawFn) -> SharePartitionRequest:
    named = "r", "g", "t", "id-t", draw(st.integers(0, 1)), draw(st.sampled_from(MEMBERS))
    first = draw(st.integers(0, MAX_OFFSET))
    last = draw(st.integers(first, min(first + 6, MAX_OFFSET)))
    batch = AcknowledgementBatch(first, last, (draw(st.sampled_from([0, 1, 2, 3])),))
    fetch = FetchRequest(*named, max_records=draw(st.integers(1, 8)))
    acknowledge = AcknowledgeRequest(*named, batches=(batch,))
    unacquire = UnacquireRequest(*named, ranges=(OffsetRange(first, last),))
    release = ReleaseMemberRequest(*named)
    of_gateway = draw(st.sampled_from(["gateway-1", "gateway-2"]))
    reserve = ReserveRequest(
        *named[:5], "", -1, of_gateway, records=draw(st.integers(1, 6)), lease_ms=5_000, reservation_epoch=1
    )
    ranges = (OffsetRange(first, last),)
    assign = AssignRequest(
        *named, ranges=ranges, requester=of_gateway, reservation_epoch=1, lock_duration_ms=9_000, valid_until_ms=2**50
    )
    unreserve = UnreserveRequest(*named[:5], "", ranges=ranges, requester=of_gateway, reservation_epoch=1)
    kinds: list[SharePartitionRequest] = [
        *[fetch] * 2, *[acknowledge] * 3, unacquire, release, reserve, reserve, assign, unreserve
    ]  # fmt: skip
    return draw(st.sampled_from(kinds))


def load_row(log_end_offset: int) -> str:
    load = {"state_epoch": 0, "initializing": False, "start_offset": 0, "log": [0, log_end_offset], "header": None}
    load |= {"topic": "t"}
    return rows.encode_row(
        rows.LOAD, json.dumps([{**load, "partition": partition, "batches": []} for partition in (0, 1)])
    )


@pytest.mark.thorough
@SPARK_EXAMPLES
@given(st.lists(st.tuples(st.lists(requests(), max_size=4), st.integers(0, 20_000)), min_size=10, max_size=25))
def test_in_flight_equals_the_state_that_the_job_loads(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[SharePartitionRequest], int]],
) -> None:
    """Uses the real operator, commit steps and table; the views also match at every earlier version."""
    tables_path = str(tmp_path_factory.mktemp("tables"))
    tables = SampleTables(tables_path, "g", "id-t", SnapshotRules(updates_per_snapshot=4))
    config = GroupConfig.from_overrides(ShareGroupConfig(), GroupOverrides())
    now_ms, offset = 1_700_000_000_000, 0
    tables.commit([rows.encode_row(rows.CONFIG, json.dumps(config.to_json())), load_row(MAX_OFFSET // 2)], now_ms)
    for drawn, passed_ms in batches:
        now_ms += passed_ms
        lines = [rows.encode_row(rows.TICK, str(now_ms))]
        for request in drawn:
            offset += 1
            row = f"0\t{offset}\t{now_ms}\t{request.encode().decode()}"
            lines.append(rows.encode_row(rows.REQUEST, row))
        tables.commit(lines, now_ms)
    path = f"{tables_path}/share_group_state"
    newest = DeltaTable(path).version()
    for version in (newest, newest // 2):
        actual = spark.sql(in_flight_sql(f"delta.`{path}` VERSION AS OF {version}"))
        assert_same_ranges(actual, folded_ranges(spark, read_states(DeltaTable(path, version=version))))


# -- registration ------------------------------------------------------------------------------------------------------


def test_views_follow_the_tables_and_move_with_them(
    spark: SparkSession, tmp_path: Path, unique_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = GroupConfig.from_overrides(ShareGroupConfig(), GroupOverrides())
    spark.sql("CREATE DATABASE IF NOT EXISTS view_tests")
    monkeypatch.chdir(tmp_path)
    for name, log_end_offset in (("one", 5), ("two", 9)):
        path = str(tmp_path / name)
        tables = SampleTables(path, "g", "id-t")
        create_views(spark, name, "view_tests")
        assert spark.table("in_flight").count() == 0
        fetch = FetchRequest("r", "g", "t", "id-t", 1, "m1", max_records=100)
        lines = [rows.encode_row(rows.CONFIG, json.dumps(config.to_json())), load_row(log_end_offset)]
        tables.commit([*lines, rows.encode_row(rows.REQUEST, f"0\t0\t1000\t{fetch.encode().decode()}")], 1_000)
        seen = spark.sql("SELECT last_offset, state, member_id, lock_deadline FROM in_flight").collect()
        assert [(row[0], row[1], row[2]) for row in seen] == [(log_end_offset - 1, "ACQUIRED", "m1")]
        offsets = spark.sql("SELECT partition, start_offset, end_offset FROM share_group_offsets ORDER BY 1").collect()
        assert [tuple(row) for row in offsets] == [(0, 0, 0), (1, 0, log_end_offset)]
    before = spark.sql(in_flight_sql("view_tests.share_group_state VERSION AS OF 1"))
    assert before.count() == 0


def test_a_managed_table_is_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    SampleTables(str(tmp_path / "tables"), "g", "id-t")
    spark.sql("CREATE DATABASE IF NOT EXISTS taken")
    spark.sql("CREATE TABLE IF NOT EXISTS taken.share_group_state (precious INT) USING delta")
    with pytest.raises(NameTakenError, match="share_group_state"):
        create_views(spark, str(tmp_path / "tables"), "taken")
    assert spark.table("taken.share_group_state").columns == ["precious"]
