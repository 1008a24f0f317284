"""Upkeep: what the commit steps cost after thousands of micro-batches, with the real upkeep beside them.

The steps are run without Spark and Kafka, as fast as they go, on what the real operator puts out for a steady member at
4 share-partitions: 5,000 commits are 25 minutes of micro-batches. So upkeep has a tenth of the time that it has in a
job. At the end commits to these tables and to new ones take turns, so that both are measured on the same machine in the
same mood. Bytes are those of the files that the tables' logs name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sharegroup.config import Config, JobConfig
from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.storage.schemas import SHARE_PARTITION_TABLES, table_path
from sharegroup.storage.upkeep.upkeep_process import UpkeepProcess, upkeep_settings
from sharegroup.storage.writing.delta_table import DeltaTableWriter
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.steady_batches import SteadyBatches

NAME = "upkeep"
_REACH = 1.2
_BYTES_REACH = 3
_LOOK_COMMITS = 50
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
        self._steps.become_leader()
        self._steps.commit(Batch.from_outputs(0, [self._batches.loaded]))
        self._batch_id = 0
        self.written = [WrittenBytes(table_path(tables_path, spec)) for spec in SHARE_PARTITION_TABLES]
        self._upkeep = UpkeepProcess(
            upkeep_settings(Config(job=_CONFIG.model_copy(update={"tables_path": tables_path})))
        )

    def close(self) -> None:
        """End the upkeep."""
        self._upkeep.close()

    def commit(self) -> float:
        """How long the next batch took."""
        self._batch_id += 1
        output = self._batches.round(self._now_ms + self._batch_id * _BATCH_MS)
        batch = Batch.from_outputs(self._batch_id, [output])
        begin = time.perf_counter()
        self._steps.commit(batch)
        took = (time.perf_counter() - begin) * 1000
        if self._batch_id % _LOOK_COMMITS == 0:
            for each in self.written:
                each.look()
        if self._batch_id % _CONFIG.upkeep_interval_commits == 0:
            self._upkeep.request(SHARE_PARTITION_TABLES, self._steps.leader_epoch)
        return took


class WrittenBytes:
    """What was written to a table, by its log: by batches, and by upkeep with the log's checkpoints."""

    def __init__(self, path: str) -> None:
        self._log = Path(path, "_delta_log")
        self._seen, self._checkpoint = -1, -1
        self.by_batches = self.by_upkeep = 0

    def look(self) -> None:
        """Take in the commits since the last look; to be called before upkeep cuts them off."""
        for commit in sorted(self._log.glob("*.json")):
            if int(commit.stem) > self._seen:
                self._seen = int(commit.stem)
                self._take(commit.read_text())
        if (self._log / "_last_checkpoint").exists():
            newest = json.loads((self._log / "_last_checkpoint").read_text())
            if newest["version"] != self._checkpoint:
                self._checkpoint = newest["version"]
                self.by_upkeep += newest["sizeInBytes"]

    def _take(self, commit: str) -> None:
        actions = [json.loads(line) for line in commit.splitlines()]
        size = len(commit) + sum(each["add"]["size"] for each in actions if "add" in each)
        if any("sharegroup.upkeep" in each.get("commitInfo", {}) for each in actions):
            self.by_upkeep += size
        else:
            self.by_batches += size


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The median commit after many against the median commit to new tables, its tail, and the bytes of upkeep."""
    commits, turns = (500, 100) if quick else (5_000, 200)
    tables = SteadyTables(str(directory / "old"))
    commit_ms = [tables.commit() for _ in range(commits)]
    new_tables = SteadyTables(str(directory / "new"))
    pairs = [(tables.commit(), new_tables.commit()) for _ in range(turns)]
    for each in (tables, new_tables):
        each.close()
    old, new = (median([pair[side] for pair in pairs]) for side in (0, 1))
    first, p99 = median(commit_ms[:turns]), sorted(commit_ms)[len(commit_ms) * 99 // 100]
    batch = (_BATCH_MS + old - new) / _BATCH_MS
    by_batches, by_upkeep = (
        sum(getattr(each, name) for each in tables.written) for name in ("by_batches", "by_upkeep")
    )
    late = p99 - median(commit_ms)
    figures = [
        Figure(NAME, f"commit p50 after {commits:,} commits, in turns with new tables", old, "ms", new, old / new),
        Figure(NAME, f"micro-batch of {_BATCH_MS} ms with it", _BATCH_MS + old - new, "ms", _BATCH_MS, batch,
               f"<= {_REACH}", batch <= _REACH),
        Figure(NAME, f"commit p50 after {commits:,} commits, against the first {turns}", old, "ms", first, old / first),
        Figure(NAME, "what a commit takes longer at p99 than at p50", late, "ms", None, None, "<= 100 ms", late <= 100),
        Figure(NAME, "MB that upkeep wrote, against batches", by_upkeep / 1e6, "MB", by_batches / 1e6,
               by_upkeep / by_batches, f"<= {_BYTES_REACH}", by_upkeep <= _BYTES_REACH * by_batches),
    ]  # fmt: skip
    step = max(1, commits // 20)
    return figures, {"commit_p50_ms": [round(median(commit_ms[at : at + step]), 2) for at in range(0, commits, step)]}
