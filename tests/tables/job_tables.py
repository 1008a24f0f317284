"""One query's tables and commit steps, for a job that is restarted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.job.commit.deferred_rows import TaskRunner, run_immediately
from sharegroup.storage.schemas import SHARE_PARTITION_TABLES, TableSpec
from sharegroup.storage.upkeep.table_upkeep import TableUpkeep
from sharegroup.storage.writing.delta_table import DeltaTableWriter, DeltaVersions
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import Upkeep

T0 = 1_700_000_000_000
TOPIC_ID = "orders-0123456789abcde"


class Died(Exception):
    """Stands for the death of the process."""


class RecordingProducer:
    """Records the rows that were sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[list[str], list[tuple[str, str]]]] = []

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        """Record the ids of the responses, and the requests."""
        self.sent.append(([response["id"] for response in responses], list(requests)))


def dies_after(step: int) -> Callable[[int, int], None]:
    """Return a fault point that raises Died after this step."""

    def fault_point(reached: int, batch_id: int) -> None:
        if reached == step:
            raise Died

    return fault_point


def start(
    root: Path,
    query_id: str = "query-1",
    specs: Sequence[TableSpec] = SHARE_PARTITION_TABLES,
    fault_point: Callable[[int, int], None] | None = None,
    writer: Callable[[str, TableSpec], TableWriter] = DeltaTableWriter,
    later: TaskRunner = run_immediately,
) -> tuple[CommitSteps, RecordingProducer]:
    """Run the start of a job."""
    producer = RecordingProducer()
    steps = CommitSteps([writer(str(root), spec) for spec in specs], producer, fault_point, later=later)
    steps.become_leader()
    steps.complete_last_batch()
    steps.query_id = query_id
    return steps, producer


class UpkeepOf:
    """The upkeep of a job's tables, with handles of its own."""

    def __init__(self, root: Path) -> None:
        self._tables = {
            spec.name: TableUpkeep(DeltaVersions(str(root), spec), "upkeep") for spec in SHARE_PARTITION_TABLES
        }

    def run(
        self, steps: CommitSteps, retention: timedelta = timedelta(hours=24), local_versions: int = 1_000,
        prune_before: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        for name, table in self._tables.items():
            table.run(steps.leader_epoch, Upkeep(retention, local_versions, (prune_before or {}).get(name)))


def batch(batch_id: int, offset: int = 0, position: int | None = None) -> Batch:
    """Return a fetch of one record: a row for each of the two tables, a response and a request."""
    key = {"group_id": "g", "topic": "orders", "topic_id": TOPIC_ID, "partition": 0}
    state = key | {
        "record_type": "ShareSnapshot" if batch_id == 0 else "ShareUpdate",
        "snapshot_epoch": 0,
        "state_epoch": 1 if batch_id == 0 else -1,
        "start_offset": 0,
        "end_offset": offset + 1,
        "delivery_complete_count": 0,
        "state_batches": [
            {
                "first_offset": offset,
                "last_offset": offset,
                "delivery_state": 1,
                "delivery_count": 1,
                "member_id": "m1",
                "lock_deadline": (T0 + 30_000) * 1000,
            }
        ],
    }
    transition = key | {
        "first_offset": offset,
        "last_offset": offset,
        "from_state": "AVAILABLE",
        "to_state": "ACQUIRED",
        "cause": "fetch",
        "member_id": "m1",
        "delivery_count": 1,
        "lock_deadline": (T0 + 30_000) * 1000,
    }
    return Batch(
        batch_id,
        T0 + batch_id,
        {"share_group_state": [state], "delivery_log": [transition]},
        [{"id": f"f{batch_id}", "reply_to": "me"}],
        [("g", f"notice-{batch_id}")],
        positions={0: batch_id + 1 if position is None else position},
    )


def rows(root: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return the table's rows, sorted."""
    found: pa.Table = DeltaTable(str(root / table)).to_pyarrow_table(columns=list(columns))
    return sorted(tuple(row.values()) for row in found.to_pylist())
