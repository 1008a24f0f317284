"""The stateful operators as applyInPandasWithState wants them: decode, call the engine, encode. Nothing else."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql.streaming.state import GroupState

from sharegroup.config import Config
from sharegroup.core.operators.operator import Operator
from sharegroup.core.operators.refused_requests import ForeignRequests, Refusal, UnkeyedRequests
from sharegroup.core.operators.share_group.share_group_operator import ShareGroupOperator
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.share_partition_shard import Shard
from sharegroup.job.knowledge.shard_keys import UNKEYED, ShardKey
from sharegroup.kafka_clients.job_clock import BrokersTime
from sharegroup.protocol.rows.response_rows import share_group_refusal, share_partition_refusal

#: One JSON text: nested arrays of structs fail in Spark's pickler, and JSON stays readable through `statestore`.
STATE_SCHEMA = "state STRING"
OUTPUT_SCHEMA = "output STRING"

#: The local property by which the driver tells the tasks of a batch its time (`time_text`).
TIME_PROPERTY = "sharegroup.time"

_NO_CELLS = Config()

PandasOperator = Callable[[tuple[Any, ...], Iterable[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]


def share_partition_operator(records: SnapshotRules, config: Config = _NO_CELLS) -> PandasOperator:
    """The operator of the share_partition query, keyed by `ShardKey`."""

    def restore(key: str, state: str | None) -> Operator:
        if key == UNKEYED:
            return UnkeyedRequests(key)
        group_id, topic_id, _ = ShardKey.decode(key)
        if not config.has_group(group_id):
            return _foreign(key, group_id, config, share_partition_refusal)
        return Shard(key, group_id, topic_id, records, state, counts=config.job.metrics_port > 0)

    return _operator(restore)


def group_coordinator_operator(config: Config) -> PandasOperator:
    """The operator of the group_coordinator query, keyed by group id."""

    def restore(group_id: str, state: str | None) -> Operator:
        if group_id and not config.has_group(group_id):
            return _foreign(group_id, group_id, config, share_group_refusal)
        return ShareGroupOperator(group_id, config, state)

    return _operator(restore)


def _foreign(key: str, group_id: str, config: Config, refusal: Refusal) -> Operator:
    return ForeignRequests(key, group_id, (config.cell, config.cells.cell_of(group_id)), refusal)


def _operator(restore: Callable[[str, str | None], Operator]) -> PandasOperator:
    def operator(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        _freeze()
        lines = [line for frame in frames for line in frame["row"]]
        before = state.get[0] if state.exists else None
        with _without_collections():
            machine = restore(key[0], before)
            now_ms, earliest_ms = _batch_time(state)
            output = machine.run(lines, now_ms, earliest_ms).encode()
            after = machine.dump()
        if after is None:
            if before is not None:
                state.remove()
        elif after != before:
            state.update((after,))
        yield pd.DataFrame({"output": [output]})

    return operator


def _batch_time(state: GroupState) -> tuple[int, int]:
    """Return the time of the batch, and that of the broker that is behind the others.

    The timestamp that Spark gives a batch is the driver's wall clock. It counts only where no job says the time, as in
    a query of these operators alone.
    """
    context = TaskContext.get()
    told = context.getLocalProperty(TIME_PROPERTY) if context is not None else None
    if not told:
        now_ms = state.getCurrentProcessingTimeMs()
        return now_ms, now_ms
    time = BrokersTime(*map(int, told.split(",")))
    return time.latest_ms, time.earliest_ms


def time_text(time: BrokersTime) -> str:
    """Return a batch's time as `TIME_PROPERTY` has it."""
    return ",".join(map(str, time))


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """No garbage is looked for inside the block, as next to none is made: with 1,000 share-partitions in the state the
    looking took 0.16 of 0.41 ms of each. Spark's worker collects after the task.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@functools.cache
def _freeze() -> None:
    """Once in a worker process: let garbage collections pass over what is there now, modules for the most part.

    Spark's worker collects all garbage after each task. That took 70 ms, ten times the task itself.
    """
    gc.collect()
    gc.freeze()
