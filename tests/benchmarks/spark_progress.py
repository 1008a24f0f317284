"""Micro-batches as Spark itself reports them: the query progress in a job's log (see log4j2.properties beside this)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

_MARK = "Streaming query made progress: "


class MicroBatch(NamedTuple):
    """A micro-batch: when its trigger began, how many rows it read, and Spark's durationMs of its parts."""

    query: str
    batch_id: int
    start_ms: float
    rows: int
    durations: Mapping[str, int]

    @property
    def trigger_ms(self) -> int:
        """The whole micro-batch, from the question for new offsets to the commit."""
        return self.durations["triggerExecution"]

    @property
    def end_ms(self) -> float:
        """When it was committed."""
        return self.start_ms + self.trigger_ms

    @property
    def without_offsets_ms(self) -> int:
        """The micro-batch without the question for new offsets, in which an idle Python source waits for news."""
        return self.trigger_ms - self.durations.get("latestOffset", 0)


class Window(NamedTuple):
    """A time in which one side ran alone, in ms since the epoch."""

    begin_ms: float
    end_ms: float


def micro_batches(log_path: Path, query: str | None = None) -> list[MicroBatch]:
    """The micro-batches (those that ran) of a query, in order."""
    text = log_path.read_text(errors="replace")
    decoder = json.JSONDecoder()
    found = []
    position = text.find(_MARK)
    while position >= 0:
        try:
            row, _ = decoder.raw_decode(text, position + len(_MARK))
        except json.JSONDecodeError:  # the job is writing this line now
            break
        if "addBatch" in row["durationMs"] and query in (None, row["name"]):
            found.append(_micro_batch(row))
        position = text.find(_MARK, position + 1)
    return found


def inside(batches: Sequence[MicroBatch], windows: Sequence[Window]) -> list[MicroBatch]:
    """The batches that began and ended within a window."""
    return [
        batch
        for begin_ms, end_ms in windows
        for batch in batches
        if batch.start_ms >= begin_ms and batch.end_ms <= end_ms
    ]


def _micro_batch(row: Mapping[str, object]) -> MicroBatch:
    start = datetime.fromisoformat(str(row["timestamp"]).replace("Z", "+00:00"))
    durations = row["durationMs"]
    assert isinstance(durations, dict)
    return MicroBatch(
        str(row["name"]), int(str(row["batchId"])), start.timestamp() * 1000, int(str(row["numInputRows"])), durations
    )
