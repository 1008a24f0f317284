"""The stateful operators as applyInPandasWithState wants them: decode, call the engine, encode. Nothing else."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.state import GroupState

from sharegroup.config import Config
from sharegroup.engine.answers import reject_unkeyed
from sharegroup.engine.output import Output
from sharegroup.engine.share_group_operator import run_share_group
from sharegroup.engine.share_partition_shard import Shard
from sharegroup.engine.snapshot_rules import SnapshotRules
from sharegroup.watch.shard_keys import UNKEYED, ShardKey

#: One JSON text: nested arrays of structs fail in Spark's pickler, and JSON stays readable through `statestore`.
STATE_SCHEMA = "state STRING"
OUTPUT_SCHEMA = "output STRING"

Operator = Callable[[tuple[Any, ...], Iterable[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]


def share_partition_operator(records: SnapshotRules) -> Operator:
    """The operator of the share_partition query, keyed by `ShardKey`."""

    def run(key: str, lines: list[str], now_ms: int, state: str | None) -> tuple[Output, str | None]:
        if key == UNKEYED:
            return reject_unkeyed(key, lines, now_ms), None
        group_id, topic_id, _ = ShardKey.decode(key)
        shard = Shard(key, group_id, topic_id, records, state)
        output = shard.run(lines, now_ms)
        return output, shard.dump()

    return _operator(run)


def group_coordinator_operator(config: Config) -> Operator:
    """The operator of the group_coordinator query, keyed by group id."""

    def run(key: str, lines: list[str], now_ms: int, state: str | None) -> tuple[Output, str | None]:
        return run_share_group(key, config, lines, now_ms, state)

    return _operator(run)


def _operator(run: Callable[[str, list[str], int, str | None], tuple[Output, str | None]]) -> Operator:
    def operator(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        _freeze()
        lines = [line for frame in frames for line in frame["row"]]
        before = state.get[0] if state.exists else None
        output, after = run(key[0], lines, state.getCurrentProcessingTimeMs(), before)
        if after is None:
            if before is not None:
                state.remove()
        elif after != before:
            state.update((after,))
        yield pd.DataFrame({"output": [output.encode()]})

    return operator


@functools.cache
def _freeze() -> None:
    """Once in a worker process: let garbage collections pass over what is there now, modules for the most part.

    Spark's worker collects all garbage after each task. That took 70 ms, ten times the task itself.
    """
    gc.collect()
    gc.freeze()
