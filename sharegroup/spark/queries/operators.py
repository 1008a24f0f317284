"""The operators as functions for applyInPandasWithState: decode the rows, run the operator, encode its output."""

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
from sharegroup.core.operators.gateway_leases import GatewayLeases
from sharegroup.core.operators.operator import Operator
from sharegroup.core.operators.rejected_requests import ForeignRequests, Rejection
from sharegroup.core.operators.share_group.share_group_operator import ShareGroupOperator
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.share_partition_operator import SharePartitionOperator
from sharegroup.job.knowledge.shard_keys import UNKEYED, ShardKey
from sharegroup.kafka_clients.job_clock import BrokersTime
from sharegroup.protocol.rows.response_rows import reject_share_group_request, reject_share_partition_request

#: The state is one JSON text, because nested arrays of structs fail in Spark's pickler. The text is readable
#: through Spark's data source `statestore`.
STATE_SCHEMA = "state STRING"
OUTPUT_SCHEMA = "output STRING"

#: The local property in which the driver passes a batch's time to its tasks (`time_text`).
TIME_PROPERTY = "sharegroup.time"

_NO_CELLS = Config()

PandasOperator = Callable[[tuple[Any, ...], Iterable[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]


def share_partition_operator(records: SnapshotRules, config: Config = _NO_CELLS) -> PandasOperator:
    """Return the operator of the share_partition query, whose key is an encoded `ShardKey` or `UNKEYED`.

    `records` has the rules that decide when the state of a share-partition is written as a snapshot. Requests for
    groups of another cell than that of `config` are rejected.
    """

    def restore(key: str, state: str | None) -> Operator:
        if key == UNKEYED:
            return GatewayLeases(key)
        group_id, topic_id, _ = ShardKey.decode(key)
        if not config.has_group(group_id):
            return _foreign(key, group_id, config, reject_share_partition_request)
        return SharePartitionOperator(key, group_id, topic_id, records, state, counts=config.job.metrics_port > 0)

    return _operator(restore)


def group_coordinator_operator(config: Config) -> PandasOperator:
    """Return the operator of the group_coordinator query, whose key is a group id.

    Requests for groups of another cell than that of `config` are rejected.
    """

    def restore(group_id: str, state: str | None) -> Operator:
        if group_id and not config.has_group(group_id):
            return _foreign(group_id, group_id, config, reject_share_group_request)
        return ShareGroupOperator(group_id, config, state)

    return _operator(restore)


def _foreign(key: str, group_id: str, config: Config, refusal: Rejection) -> Operator:
    return ForeignRequests(key, group_id, (config.cell, config.cells.cell_of(group_id)), refusal)


def _operator(restore: Callable[[str, str | None], Operator]) -> PandasOperator:
    def apply(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        _freeze()
        lines = [line for frame in frames for line in frame["row"]]
        before = state.get[0] if state.exists else None
        with _without_collections():
            operator = restore(key[0], before)
            now_ms, earliest_ms = _batch_time(state)
            output = operator.run(lines, now_ms, earliest_ms).encode()
            after = operator.dump()
        if after is None:
            if before is not None:
                state.remove()
        elif after != before:
            state.update((after,))
        yield pd.DataFrame({"output": [output]})

    return apply


def _batch_time(state: GroupState) -> tuple[int, int]:
    """Return the latest and the earliest of the brokers' times at this batch, in ms since the epoch.

    The job sets both for each batch. If there is no job, as in a query that uses these operators alone, both are
    Spark's batch timestamp, which is the driver's wall clock.
    """
    context = TaskContext.get()
    text = context.getLocalProperty(TIME_PROPERTY) if context is not None else None
    if not text:
        now_ms = state.getCurrentProcessingTimeMs()
        return now_ms, now_ms
    time = BrokersTime(*map(int, text.split(",")))
    return time.latest_ms, time.earliest_ms


def time_text(time: BrokersTime) -> str:
    """Return a batch's time in the format of `TIME_PROPERTY`."""
    return ",".join(map(str, time))


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Disable garbage collection in the block, which creates almost no garbage.

    With 1,000 share-partitions in the state, collections took 0.16 ms of the 0.41 ms for each share-partition. Spark's
    worker collects garbage after the task.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@functools.cache
def _freeze() -> None:
    """Exclude the objects that exist now, mostly modules, from garbage collections. Further calls do nothing.

    Spark's worker collects all garbage after each task. Without this function, the collection took 70 ms, ten times as
    long as the task.
    """
    gc.collect()
    gc.freeze()
