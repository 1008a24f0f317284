"""What keeps a Delta table small, and how long its old versions stay.

Everything here costs what has come since the last time, or is done rarely:

    compaction     each time, in tiers (`compaction`)
    checkpoint     the log's, each time while it is small; it names every live file and every one that was removed and
                   is not vacuumed yet, so a large one is made after more commits
    vacuum         once an hour: it lists all files
    old days       when there are any
"""

from __future__ import annotations

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
from sharegroup.storage.writing.local_log import kept_hours, trim_local_log
from sharegroup.storage.writing.local_sync import LocalSync
from sharegroup.storage.writing.versioned_table import Upkeep

#: Old versions stay for so long at least; on a local disk, where few of them do, their files for less.
LEAST_HOURS = 24
_VACUUM_INTERVAL_S = 3_600
#: A checkpoint that is larger is made after more commits: as many as write about as much as it does.
_BYTES_A_COMMIT, _MAX_COMMITS = 10_000, 1_000
#: The log names removed files for longer than they stay: until a vacuum has seen them, be it after an hour.
_SLACK_HOURS = 4


def retention_properties(hours: int, files_hours: int | None = None) -> Mapping[str, str]:
    """Properties that keep versions for so long, and the files that only old versions have."""
    return {
        "delta.logRetentionDuration": f"interval {hours} hours",
        "delta.deletedFileRetentionDuration": f"interval {(files_hours or hours) + _SLACK_HOURS} hours",
    }


class DeltaUpkeep:
    """The upkeep of one table, from time to time, by one process."""

    def __init__(self, path: str, options: Mapping[str, str] | None, sync: LocalSync) -> None:
        """`sync` is that of the writer whose commits these are."""
        self._path, self._options, self._sync = path, options, sync
        self._files_hours: int | None = None
        self._vacuum_due_s = 0.0
        self._checkpoint_due = 0

    def run(self, table: DeltaTable, upkeep: Upkeep, properties: CommitProperties) -> None:
        """Drop old days, compact, vacuum, checkpoint, cut the log. Raises delta-rs's errors, OSError.

        Nothing is removed before what takes its place is on the disk.

        The vacuum comes before the checkpoint, which forgets files that were removed too long ago: after a day without
        a job they are still found.
        """
        hours = max(LEAST_HOURS, -(-upkeep.versions_retention // timedelta(hours=1)))
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
        """It is a property of the table, so it changes by factors, and not to and fro."""
        kept = kept_hours(self._path, table.version(), local_versions)
        wanted = hours if kept is None else min(hours, 1 << kept.bit_length())
        if self._files_hours is None or not self._files_hours // 4 < wanted <= self._files_hours:
            self._files_hours = wanted
        return min(self._files_hours, hours)

    def _vacuum_when_due(self, table: DeltaTable, hours: int, properties: CommitProperties) -> None:
        now_s = time.monotonic()
        if now_s < self._vacuum_due_s:
            return
        table.vacuum(
            retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True,
            commit_properties=properties, post_commithook_properties=NO_HOOKS,
        )  # fmt: skip
        self._vacuum_due_s = now_s + _VACUUM_INTERVAL_S

    def _checkpoint_when_due(self, table: DeltaTable) -> None:
        version = table.version()
        if version < self._checkpoint_due:
            return
        self._sync.sync(version)  # a vacuum has commits too
        table.create_checkpoint()
        self._sync.sync_checkpoint(version)
        self._checkpoint_due = version + min(_checkpoint_bytes(table, self._options) // _BYTES_A_COMMIT, _MAX_COMMITS)


def _compact(table: DeltaTable, properties: CommitProperties) -> None:
    """Each partition by itself, as no file has rows of two."""
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
    """The size of the newest checkpoint."""
    storage = pa_fs.PyFileSystem(DeltaStorageHandler(table.table_uri, dict(options or {})))
    with storage.open_input_stream("_delta_log/_last_checkpoint") as pointer:
        return int(json.loads(pointer.read()).get("sizeInBytes") or 0)


def _set_retention(table: DeltaTable, wanted: Mapping[str, str], properties: CommitProperties) -> None:
    """Make it the table's own property: what cleans the log goes by that, here and elsewhere."""
    if not wanted.items() <= table.metadata().configuration.items():
        table.alter.set_table_properties(
            dict(wanted), commit_properties=properties, post_commithook_properties=NO_HOOKS
        )
