"""The supported subset of Kafka's broker keys share.coordinator.*. They control how often state is written."""

from sharegroup.config.family import ConfigFamily, Whole, key


class ShareCoordinatorConfig(ConfigFamily):
    """Keys `share.coordinator.*` of the section `group`."""

    snapshot_update_records_per_snapshot: Whole = key(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        "Number of ShareUpdate records between two ShareSnapshot records. 0: only snapshots are written.",
        ge=0,
        le=500,
    )
    cold_partition_snapshot_interval_ms: Whole = key(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        300_000,
        "Age of the last ShareSnapshot after which a new one is written, so that older rows can be deleted.",
        ge=1,
    )
