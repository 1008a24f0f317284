"""Keeps a Delta table small, and decides how long its old versions are kept.

Upkeep has four parts. A part whose cost depends on the size of the whole table runs rarely:

    compaction        in each upkeep, in tiers (`compaction`)
    log checkpoint    after a number of commits that depends on the size of the last checkpoint. A checkpoint lists
                      every live file, and every removed file that is not vacuumed yet. While it is small, one is
                      written in each upkeep
    vacuum            once an hour, because it lists all files
    deletion of days  when there are days to delete
"""

import json
import time
from collections.abc import Mapping
from datetime import timedelta

import pyarrow as pa
import pyarrow.fs as pa_fs
from deltalake import CommitProperties, DeltaTable
from deltalake.fs import DeltaStorageHandler

from sharegroup.storage.writing.compaction import due_target
from sharegroup.storage.writing.delta_commit import NO_HOOKS
from sharegroup.storage.writing.local_log import trim_local_log, versions_age_hours
from sharegroup.storage.writing.local_sync import LocalSync
from sharegroup.storage.writing.versioned_table import Upkeep

#: The minimum time for which old versions are kept, in hours. If `tables.local.versions` limits the versions on a local
#: disk, their files may be deleted earlier.
MIN_HOURS = 24
_VACUUM_INTERVAL_S = 3_600
#: The assumed bytes of a commit, and the maximum number of commits between two checkpoints. A checkpoint is written
#: when the commits since the last checkpoint have written about as many bytes as that checkpoint has.
_BYTES_A_COMMIT, _MAX_COMMITS = 10_000, 1_000
#: The log lists removed files for this many hours longer than the files are kept: the vacuum that deletes them may
#: run an hour later.
_SLACK_HOURS = 4


def retention_properties(hours: int, files_hours: int | None = None) -> Mapping[str, str]:
    """Return the table properties that keep old versions for `hours`.

    The files that only old versions need are kept for `files_hours`, by default also for `hours`. The log lists them
    for some hours longer, because the vacuum that deletes them may run later.
    """
    return {
        "delta.logRetentionDuration": f"interval {hours} hours",
        "delta.deletedFileRetentionDuration": f"interval {(files_hours or hours) + _SLACK_HOURS} hours",
    }


class DeltaUpkeep:
    """Runs the upkeep of one Delta table. Only one process may use it."""

    def __init__(self, path: str, options: Mapping[str, str] | None, sync: LocalSync) -> None:
        """`sync` makes the commits of upkeep survive a power loss."""
        self._path, self._options, self._sync = path, options, sync
        self._files_hours: int | None = None
        self._vacuum_due_s = 0.0
        self._checkpoint_due = 0

    def run(self, table: DeltaTable, upkeep: Upkeep, properties: CommitProperties) -> None:
        """Delete rows of old days, compact, vacuum, write a log checkpoint, and remove old log entries.

        First, the table's properties for retention are updated. No file is deleted before its replacement is on the
        disk. The vacuum runs before the checkpoint, because it needs the list of removed files in the log. A checkpoint
        omits files that were removed from the table long ago, for example before the job was stopped for a day. Raises
        OSError and delta-rs's errors.
        """
        hours = max(MIN_HOURS, -(-upkeep.versions_retention // timedelta(hours=1)))
        files_hours = self._wanted_files_hours(table, hours, upkeep.local_versions)
        _set_retention(table, retention_properties(hours, files_hours), properties)
        if upkeep.prune_before is not None:
            table.delete(upkeep.prune_before, commit_properties=properties, post_commithook_properties=NO_HOOKS)
        _compact(table, properties)
        self._sync.sync(table.version())
        self._vacuum_when_due(table, files_hours, properties)
        self._checkpoint_when_due(table)
        table.cleanup_metadata()
        trim_local_log(self._path, table.version(), upkeep.local_versions)

    def _wanted_files_hours(self, table: DeltaTable, hours: int, local_versions: int) -> int:
        """Return how many hours to keep the files that only old versions need, at most `hours`.

        On a local disk, the result is also limited to about the age of the oldest of the last `local_versions`
        versions. The result becomes a table property, and each change of this property is a commit. The result is
        therefore rounded up to a power of two, and lowered only to a quarter of the last result or less.
        """
        kept = versions_age_hours(self._path, table.version(), local_versions)
        wanted = hours if kept is None else min(hours, 1 << kept.bit_length())
        if self._files_hours is None or not self._files_hours // 4 < wanted <= self._files_hours:
            self._files_hours = wanted
        return min(self._files_hours, hours)

    def _vacuum_when_due(self, table: DeltaTable, hours: int, properties: CommitProperties) -> None:
        now_s = time.monotonic()
        if now_s < self._vacuum_due_s:
            return
        # The vacuum deletes files that are not in the handle's version. If this process was suspended since the last
        # refresh, another job may have written files in the meantime that are old enough to be deleted.
        table.update_incremental()
        table.vacuum(
            retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True,
            commit_properties=properties, post_commithook_properties=NO_HOOKS,
        )  # fmt: skip
        self._vacuum_due_s = now_s + _VACUUM_INTERVAL_S

    def _checkpoint_when_due(self, table: DeltaTable) -> None:
        version = table.version()
        if version < self._checkpoint_due:
            return
        self._sync.sync(version)  # a vacuum makes commits too
        table.create_checkpoint()
        self._sync.sync_checkpoint(version)
        self._checkpoint_due = version + min(_checkpoint_bytes(table, self._options) // _BYTES_A_COMMIT, _MAX_COMMITS)


def _compact(table: DeltaTable, properties: CommitProperties) -> None:
    """Compact each partition separately, because a file has rows of only one partition."""
    files = pa.table(table.get_add_actions(flatten=True))
    columns = table.metadata().partition_columns
    partitions = [files[f"partition.{column}"].to_pylist() for column in columns]
    sizes: dict[tuple[str, ...], list[int]] = {}
    for size, *values in zip(files["size_bytes"].to_pylist(), *partitions, strict=True):
        sizes.setdefault(tuple("" if value is None else str(value) for value in values), []).append(size)
    for partition, of_partition in sorted(sizes.items()):
        target = due_target(of_partition)
        if target is not None:
            table.optimize.compact(
                partition_filters=[(column, "=", value) for column, value in zip(columns, partition, strict=True)],
                target_size=target, max_concurrent_tasks=1,
                commit_properties=properties, post_commithook_properties=NO_HOOKS,
            )  # fmt: skip


def _checkpoint_bytes(table: DeltaTable, options: Mapping[str, str] | None) -> int:
    """Return the size of the newest checkpoint in bytes."""
    storage = pa_fs.PyFileSystem(DeltaStorageHandler(table.table_uri, dict(options or {})))
    with storage.open_input_stream("_delta_log/_last_checkpoint") as pointer:
        return int(json.loads(pointer.read()).get("sizeInBytes") or 0)


def _set_retention(table: DeltaTable, wanted: Mapping[str, str], properties: CommitProperties) -> None:
    """Set the table properties that decide which log entries and files are removed, here and by other tools."""
    if not wanted.items() <= table.metadata().configuration.items():
        table.alter.set_table_properties(
            dict(wanted), commit_properties=properties, post_commithook_properties=NO_HOOKS
        )
