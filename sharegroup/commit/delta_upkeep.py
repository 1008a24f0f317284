"""What keeps a Delta table small, and how long its old versions stay."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from deltalake import CommitProperties, DeltaTable

from sharegroup.commit.delta_commit import NO_HOOKS
from sharegroup.commit.local_log import trim_local_log
from sharegroup.commit.versioned_table import Upkeep

#: Old versions stay for so long at least.
LEAST_HOURS = 24


def retention_properties(hours: int) -> Mapping[str, str]:
    """Properties that keep versions for so long. The log names removed files for longer, until they are vacuumed."""
    return {
        "delta.logRetentionDuration": f"interval {hours} hours",
        "delta.deletedFileRetentionDuration": f"interval {hours + 7 * 24} hours",
    }


def keep_small(table: DeltaTable, path: str, upkeep: Upkeep, properties: CommitProperties) -> None:
    """Drop old days, compact, checkpoint, clean the log, vacuum. Raises delta-rs's errors."""
    hours = max(LEAST_HOURS, -(-upkeep.versions_retention // timedelta(hours=1)))
    _set_retention(table, hours, properties)
    if upkeep.prune_before is not None:
        table.delete(upkeep.prune_before, commit_properties=properties, post_commithook_properties=NO_HOOKS)
    table.optimize.compact(commit_properties=properties, post_commithook_properties=NO_HOOKS)
    table.create_checkpoint()
    table.cleanup_metadata()
    trim_local_log(path, table.version(), upkeep.local_versions)
    table.vacuum(
        retention_hours=hours, dry_run=False, enforce_retention_duration=False,
        commit_properties=properties, post_commithook_properties=NO_HOOKS,
    )  # fmt: skip


def _set_retention(table: DeltaTable, hours: int, properties: CommitProperties) -> None:
    """Make it the table's own property: what cleans the log goes by that, here and elsewhere."""
    wanted = retention_properties(hours)
    if not wanted.items() <= table.metadata().configuration.items():
        table.alter.set_table_properties(
            dict(wanted), commit_properties=properties, post_commithook_properties=NO_HOOKS
        )
