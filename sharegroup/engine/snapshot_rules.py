"""When durable records are snapshots, not updates."""

from __future__ import annotations

from typing import NamedTuple


class SnapshotRules(NamedTuple):
    """The keys share.coordinator.* of the job."""

    updates_per_snapshot: int = 500
    cold_snapshot_interval_ms: int = 300_000
