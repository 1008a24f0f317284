"""Batches of the group_coordinator query with many share-partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sharegroup.job.commit.commit_steps import Batch
from sharegroup.job.commit.current_rows import CHUNK_ROWS
from tests.tables.job_tables import T0

#: Three chunks; the last one has room.
COUNT = 2 * CHUNK_ROWS + 500


def partition(number: int, state_epoch: int = 1) -> dict[str, Any]:
    key = {"group_id": f"g{number // 100}", "topic": "t", "topic_id": "id-t", "partition": number}
    return key | {"status": "initialized", "state_epoch": state_epoch, "start_offset": -1, "auto_offset_reset": None}


def gone(number: int) -> dict[str, Any]:
    return {**partition(number), "_deleted": True}


def group(group_id: str) -> dict[str, Any]:
    return {"group_id": group_id, "group_epoch": 1, "assignment_epoch": 1, "group_state": "Stable"}


def batch(batch_id: int, partitions: Iterable[dict[str, Any]] = (), groups: Iterable[dict[str, Any]] = ()) -> Batch:
    tables = {"share_groups": [*groups], "share_partitions": [*partitions]}
    return Batch(batch_id, T0 + batch_id, tables, positions={0: batch_id})
