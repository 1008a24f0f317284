"""The operators in Spark: rows in files, state in RocksDB, and a restart from the checkpoint in between."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.state import GroupState

from sharegroup.config import Config
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_group.share_group_operator import ShareGroupOperator
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.share_partition_operator import SharePartitionOperator
from sharegroup.job.knowledge.shard_keys import UNKEYED
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from sharegroup.spark.job.supervisor import find_version_problem
from sharegroup.spark.queries.operators import (
    OUTPUT_SCHEMA,
    STATE_SCHEMA,
    PandasOperator,
    group_coordinator_operator,
    share_partition_operator,
)
from tests.unit.core.operators.shard_driver import (
    GROUP,
    KEY,
    TOPIC_ID,
    ShardDriver,
    acknowledge,
    config,
    fetch,
    load,
    log,
    tick,
    unload,
)
from tests.unit.core.operators.test_share_group_operator import ORDERS, GroupDriver, heartbeat, initialized

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class StatefulQuery:
    """A query whose input is a folder; each `batch` restarts it from its checkpoint."""

    def __init__(self, spark: SparkSession, root: Path, operator: PandasOperator, files: int = 0) -> None:
        self._root, self._operator, self._files = root, operator, files
        (root / "rows").mkdir(exist_ok=True)
        self._rows = spark.readStream.schema("key STRING, row STRING").json(str(root / "rows"))

    def batch(self, rows: Iterable[tuple[str, str]]) -> dict[str, Output]:
        """Run one micro-batch of (key, row) and return the output of each key."""
        lines = [json.dumps({"key": key, "row": row}) for key, row in rows]
        (self._root / "rows" / f"{self._files}.json").write_text("\n".join(lines))
        self._files += 1
        bodies: list[str] = []

        def collect(frame: DataFrame, batch_id: int) -> None:
            bodies.extend(frame.toArrow()["output"].to_pylist())

        outputs = self._rows.groupBy("key").applyInPandasWithState(
            self._operator, OUTPUT_SCHEMA, STATE_SCHEMA, "update", "NoTimeout"
        )
        query = (
            outputs.writeStream.outputMode("update")
            .option("checkpointLocation", str(self._root / "checkpoint"))
            .trigger(availableNow=True)
            .foreachBatch(collect)
            .start()
        )
        query.awaitTermination()
        decoded = map(Output.decode, bodies)
        return {output.key: output for output in decoded}


def test_a_shard_behaves_the_same_in_spark_and_without(spark: SparkSession, tmp_path: Path) -> None:
    records = SnapshotRules()
    query = StatefulQuery(spark, tmp_path, share_partition_operator(records))
    number, state = ShardDriver(), None
    batches = [
        [load(0, (0, 4)), config(), number.line(fetch("f1", max_wait_ms=3_600_000), 0)],
        [number.line(acknowledge("a1", (0, 1, 2)), 1), log(6), number.line(fetch("f2", "m2"), 2)],
        [unload(0)],
    ]
    for lines in batches:
        output = query.batch([(KEY, line) for line in lines])[KEY]
        shard = SharePartitionOperator(KEY, GROUP, TOPIC_ID, records, state)
        expected = shard.run(lines, output.now_ms)
        state = shard.dump()
        assert output == Output.decode(expected.encode())
    assert state is None

    afresh = query.batch([(KEY, load(0, (0, 1))), (UNKEYED, number.line(b"{", 0))])
    assert afresh[KEY].tables["share_group_state"][0]["snapshot_epoch"] == 0
    assert [(partition, offset) for partition, offset, _ in afresh[UNKEYED].rejected] == [(0, 3)]


def test_a_group_behaves_the_same_in_spark_and_without(spark: SparkSession, tmp_path: Path) -> None:
    job = Config()
    query = StatefulQuery(spark, tmp_path, group_coordinator_operator(job))
    number, state = GroupDriver(), None
    steps: list[ShareGroupRequest] = [
        heartbeat("h1", 0, topics=ORDERS),
        initialized(0, 1),
        heartbeat("h2", 1),
        heartbeat("h3", -1),
    ]
    for step in steps:
        line = number.line(step, 0)
        output = query.batch([(GROUP, line)])[GROUP]
        group = ShareGroupOperator(GROUP, job, state)
        expected = group.run([line], output.now_ms)
        state = group.dump()
        assert output == Output.decode(expected.encode())
    assert replace(output, tables={}, responses=[], requests=[], positions={}).deadline_ms is None


def test_state_of_another_version_reports_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    def other(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        state.update(('{"version":99}',))
        yield pd.DataFrame({"output": [Output(key[0], 0).encode()]})

    StatefulQuery(spark, tmp_path, other).batch([(KEY, tick(0))])
    with pytest.raises(StreamingQueryException) as caught:
        StatefulQuery(spark, tmp_path, share_partition_operator(SnapshotRules()), 1).batch([(KEY, tick(1))])
    told = find_version_problem(caught.value)
    assert told is not None
    assert told.startswith(
        "the operator state has format 99, but this job reads format 1: remove the checkpoint of the query share_part"
    )


def test_garbage_collection_in_workers_skips_modules(spark: SparkSession, tmp_path: Path) -> None:
    query = StatefulQuery(spark, tmp_path, share_partition_operator(SnapshotRules()))
    query.batch([(KEY, load(0, (0, 1)))])

    def frozen(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for _ in frames:
            yield pd.DataFrame({"objects": [gc.get_freeze_count()]})

    in_workers = spark.range(0, 4, 1, 4).mapInPandas(frozen, "objects LONG").collect()  # type: ignore[arg-type]
    assert max(row["objects"] for row in in_workers) > 10_000
