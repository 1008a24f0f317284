"""Upkeep: what the commit steps cost after thousands of micro-batches, with the real upkeep each 100 commits.

The steps are run without Spark and Kafka, as fast as they go, on what the real operator puts out for a steady member at
4 share-partitions: 5,000 commits are 25 minutes of micro-batches.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from sharegroup.config import EngineConfig
from sharegroup.spark.commit_steps import Batch, CommitSteps
from sharegroup.spark.delta_table import DeltaTableWriter
from sharegroup.spark.retention import prunable
from sharegroup.spark.tables import SHARE_PARTITION_TABLES
from sharegroup.testkit.embedded_kafka import EmbeddedKafka
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.steady_batches import SteadyBatches

NAME = "upkeep"
_REACH = 1.2
_BATCH_MS = 300
_CONFIG = EngineConfig()


class NoProducer:
    """Step 4 without Kafka."""

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        """Send nothing."""


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The median commit of the last batches against the first, and the same of the upkeep."""
    commits, at_each_end = (600, 100) if quick else (5_200, 200)
    commit_ms, upkeep_ms = _commit(str(directory), commits)
    first, last = median(commit_ms[:at_each_end]), median(commit_ms[-at_each_end:])
    ends = max(1, len(upkeep_ms) // 10)
    first_upkeep, last_upkeep = median(upkeep_ms[:ends]), median(upkeep_ms[-ends:])
    after = f"after {commits - at_each_end:,} commits"
    figures = [
        Figure(NAME, f"commit p50 {after}, against the first {at_each_end}", last, "ms", first, last / first,
               f"<= {_REACH}", last / first <= _REACH),
        Figure(NAME, f"one upkeep (of {len(upkeep_ms)}), last {ends} against first {ends}", last_upkeep, "ms",
               first_upkeep, last_upkeep / first_upkeep),
        Figure(NAME, "upkeep, spread over the commits between", sum(upkeep_ms) / commits, "ms"),
    ]  # fmt: skip
    step = max(1, commits // 20)
    return figures, {
        "commit_p50_ms": [round(median(commit_ms[at : at + step]), 2) for at in range(0, commits, step)],
        "upkeep_ms": [round(value, 1) for value in upkeep_ms],
    }


def _commit(tables_path: str, commits: int) -> tuple[list[float], list[float]]:
    now_ms = int(time.time() * 1000)
    batches = SteadyBatches("benchmark", "orders", range(4), now_ms, reply_to="nobody")
    steps = CommitSteps([DeltaTableWriter(tables_path, spec) for spec in SHARE_PARTITION_TABLES], NoProducer())
    steps.query_id = "00000000-0000-0000-0000-000000000000"
    steps.lead()
    steps.commit(Batch.of(0, [batches.loaded]))
    retention = timedelta(milliseconds=_CONFIG.tables_retention_ms)
    commit_ms, upkeep_ms = [], []
    for batch_id in range(1, commits + 1):
        batch = Batch.of(batch_id, [batches.round(now_ms + batch_id * _BATCH_MS)])
        begin = time.perf_counter()
        steps.commit(batch)
        commit_ms.append((time.perf_counter() - begin) * 1000)
        if batch_id % _CONFIG.upkeep_interval_commits == 0:
            begin = time.perf_counter()
            steps.upkeep(retention, prunable(tables_path, _CONFIG.delivery_log_retention_ms))
            upkeep_ms.append((time.perf_counter() - begin) * 1000)
    return commit_ms, upkeep_ms
