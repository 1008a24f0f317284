"""Upkeep: what the commit steps cost after thousands of micro-batches, with the real upkeep each 100 commits.

The steps are run without Spark and Kafka, as fast as they go, on what the real operator puts out for a steady member at
4 share-partitions: 5,000 commits are 25 minutes of micro-batches. At the end commits to these tables and to new ones
take turns, so that both are measured on the same machine in the same mood.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from sharegroup.commit.commit_steps import Batch, CommitSteps
from sharegroup.commit.delta_table import DeltaTableWriter
from sharegroup.commit.retention import prunable
from sharegroup.config import JobConfig
from sharegroup.tables.schemas import SHARE_PARTITION_TABLES
from sharegroup.testkit.embedded_kafka import EmbeddedKafka
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.steady_batches import SteadyBatches

NAME = "upkeep"
_REACH = 1.2
_BATCH_MS = 300
_CONFIG = JobConfig()


class NoProducer:
    """Step 4 without Kafka."""

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        """Send nothing."""


class SteadyTables:
    """The tables of the share_partition query under a steady member; times are in ms."""

    def __init__(self, tables_path: str) -> None:
        self._path = tables_path
        self._now_ms = int(time.time() * 1000)
        self._batches = SteadyBatches("benchmark", "orders", range(4), self._now_ms, reply_to="nobody")
        writers = [DeltaTableWriter(tables_path, spec) for spec in SHARE_PARTITION_TABLES]
        self._steps = CommitSteps(writers, NoProducer())
        self._steps.query_id = "00000000-0000-0000-0000-000000000000"
        self._steps.lead()
        self._steps.commit(Batch.of(0, [self._batches.loaded]))
        self._batch_id = 0
        self.upkeep_ms: list[float] = []

    def commit(self) -> float:
        """How long the next batch took, without the upkeep that may follow."""
        self._batch_id += 1
        output = self._batches.round(self._now_ms + self._batch_id * _BATCH_MS)
        batch = Batch.of(self._batch_id, [output])
        begin = time.perf_counter()
        self._steps.commit(batch)
        took = (time.perf_counter() - begin) * 1000
        if self._batch_id % _CONFIG.upkeep_interval_commits == 0:
            self._upkeep()
        return took

    def _upkeep(self) -> None:
        begin = time.perf_counter()
        retention = timedelta(milliseconds=_CONFIG.tables_retention_ms)
        self._steps.upkeep(
            retention, _CONFIG.tables_local_versions, prunable(self._path, _CONFIG.delivery_log_retention_ms)
        )
        self.upkeep_ms.append((time.perf_counter() - begin) * 1000)


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The median commit after many against the median commit to new tables, and the same of the upkeep."""
    commits, turns = (500, 100) if quick else (5_000, 200)
    tables = SteadyTables(str(directory / "old"))
    commit_ms = [tables.commit() for _ in range(commits)]
    new_tables = SteadyTables(str(directory / "new"))
    pairs = [(tables.commit(), new_tables.commit()) for _ in range(turns)]
    old, new = (median([pair[side] for pair in pairs]) for side in (0, 1))
    first = median(commit_ms[:turns])
    ends = max(1, len(tables.upkeep_ms) // 10)
    first_upkeep, last_upkeep = median(tables.upkeep_ms[:ends]), median(tables.upkeep_ms[-ends:])
    spread = sum(tables.upkeep_ms) / (commits + turns)
    batch = (_BATCH_MS + old - new) / _BATCH_MS
    figures = [
        Figure(NAME, f"commit p50 after {commits:,} commits, in turns with new tables", old, "ms", new, old / new),
        Figure(NAME, f"micro-batch of {_BATCH_MS} ms with it", _BATCH_MS + old - new, "ms", _BATCH_MS, batch,
               f"<= {_REACH}", batch <= _REACH),
        Figure(NAME, f"commit p50 after {commits:,} commits, against the first {turns}", old, "ms", first, old / first),
        Figure(NAME, f"one upkeep (of {len(tables.upkeep_ms)}), last {ends} against first {ends}", last_upkeep, "ms",
               first_upkeep, last_upkeep / first_upkeep),
        Figure(NAME, "upkeep, spread over the commits between", spread, "ms"),
    ]  # fmt: skip
    step = max(1, commits // 20)
    return figures, {
        "commit_p50_ms": [round(median(commit_ms[at : at + step]), 2) for at in range(0, commits, step)],
        "upkeep_ms": [round(value, 1) for value in tables.upkeep_ms],
    }
