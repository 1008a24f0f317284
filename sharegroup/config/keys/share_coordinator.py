"""Kafka's broker keys share.coordinator.* that mean something here: how share-partition state is written."""

from __future__ import annotations

from sharegroup.config.family import ConfigFamily, Whole, key


class ShareCoordinatorConfig(ConfigFamily):
    """Keys `share.coordinator.*` of the section `group`."""

    snapshot_update_records_per_snapshot: Whole = key(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "ShareUpdate records before the next ShareSnapshot; 0 writes snapshots only.",
        ge=0,
        le=500,
    )
    cold_partition_snapshot_interval_ms: Whole = key(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        300_000,
        "A state whose last ShareSnapshot is older is written anew, so that older rows can go.",
        ge=1,
    )
