"""Kafka's broker keys share.coordinator.* that mean something here: how share-partition state is written."""

from __future__ import annotations

from pydantic import Field

from sharegroup.config.family import ConfigFamily, Whole

__all__ = ["ShareCoordinatorConfig"]


class ShareCoordinatorConfig(ConfigFamily):
    """Keys `share.coordinator.*` of the section `group`."""

    snapshot_update_records_per_snapshot: Whole = Field(
        default=500,
        alias="share.coordinator.snapshot.update.records.per.snapshot",
        ge=0,
        le=500,
        description="ShareUpdate records before the next ShareSnapshot; 0 writes snapshots only.",
    )
    cold_partition_snapshot_interval_ms: Whole = Field(
        default=300_000,
        alias="share.coordinator.cold.partition.snapshot.interval.ms",
        ge=1,
        description="A state whose last ShareSnapshot is older is written anew, so that older rows can go.",
    )
