"""A table in Delta, by delta-rs.

With `max_commit_retries=0` a commit is a compare-and-set on the table's version. Two writers with different transaction
ids are not kept apart by these (engine trials), and delta-rs does not skip a repeated one. It moves OPTIMIZE and VACUUM
over the commits of others, whatever their properties say.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from sharegroup.commit.local_log import trim_local_log
from sharegroup.commit.table_writer import TableWriter
from sharegroup.commit.versioned_table import Commit, NotCommittedError, Row, Stamp, TableStoreError, Upkeep
from sharegroup.tables.schemas import TableSpec, table_path

logger = logging.getLogger(__name__)

#: Key of this project's entry in a commit's info: the batch's outbox and positions (see `spark.commit_steps`).
COMMIT_INFO_KEY = "sharegroup"
#: Key of a writer's own id in the info of each of its commits.
WRITER_KEY = "sharegroup.writer"

_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
#: What moves rows to other files, and removes files that no version needs (dataChange=false).
_REARRANGING = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END"})
_LEAST_HOURS = 24


def open_or_create(root: str, spec: TableSpec, options: dict[str, str] | None = None) -> DeltaTable:
    """The table's handle at its newest version; the table is created when missing.

    No table feature is used that delta-rs or delta-spark does not understand; old versions stay, so that a pinned one
    can be read again: for 24 hours, until the writer's first upkeep says otherwise.
    """
    path = table_path(root, spec)
    try:
        return DeltaTable(path, storage_options=options)
    except TableNotFoundError:
        if "://" not in path:
            Path(path).mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            path,
            schema=spec.schema,
            mode="ignore",
            partition_by=list(spec.partition_by) or None,
            name=spec.name,
            configuration=dict(_retention(_LEAST_HOURS)),
            storage_options=options,
        )
        return DeltaTable(path, storage_options=options)


def _retention(hours: int) -> Mapping[str, str]:
    """Properties that keep versions for so long. The log names removed files for longer, until they are vacuumed."""
    return {
        "delta.logRetentionDuration": f"interval {hours} hours",
        "delta.deletedFileRetentionDuration": f"interval {hours + 7 * 24} hours",
    }


class DeltaVersions:
    """A `VersionedTable` in Delta."""

    def __init__(self, root: str, spec: TableSpec, options: dict[str, str] | None = None) -> None:
        self.spec = spec
        self._path = table_path(root, spec)
        with _errors():
            self._table = open_or_create(root, spec, options)

    @property
    def version(self) -> int:
        return self._table.version()

    def refresh(self) -> None:
        with _errors():
            self._table.update_incremental()

    def transaction_version(self, app_id: str) -> int | None:
        with _errors():
            return self._table.transaction_version(app_id)

    def commits(self, count: int) -> Sequence[Commit]:
        with _errors():
            found = self._table.history(count)
        return [
            Commit(
                commit.get(WRITER_KEY),
                commit.get("operation") in _REARRANGING,
                json.loads(commit[COMMIT_INFO_KEY]) if COMMIT_INFO_KEY in commit else None,
            )
            for commit in found
        ]

    def rows(self) -> list[Row]:
        with _errors():
            rows: list[Row] = self._table.to_pyarrow_table().to_pylist()
        return rows

    def write(self, rows: Sequence[Row], replace: bool, stamp: Stamp) -> None:
        table = pa.Table.from_pylist(list(rows), schema=self.spec.schema)
        with _errors():
            write_deltalake(
                self._table,
                table,
                mode="overwrite" if replace else "append",
                commit_properties=_properties(stamp),
                post_commithook_properties=_NO_HOOKS,
            )

    def upkeep(self, upkeep: Upkeep, stamp: Stamp) -> None:
        properties, hours = _properties(stamp), self._hours(upkeep)
        with _errors():
            self._set_retention(hours, properties)
            if upkeep.prune_before is not None:
                self._table.delete(
                    upkeep.prune_before, commit_properties=properties, post_commithook_properties=_NO_HOOKS
                )
            self._table.optimize.compact(commit_properties=properties, post_commithook_properties=_NO_HOOKS)
            self._table.create_checkpoint()
            self._table.cleanup_metadata()
            trim_local_log(self._path, self.version, upkeep.local_versions)
            self._table.vacuum(
                retention_hours=hours, dry_run=False, enforce_retention_duration=False,
                commit_properties=properties, post_commithook_properties=_NO_HOOKS,
            )  # fmt: skip
        logger.debug("upkeep of %s at version %d", self.spec.name, self.version)

    @staticmethod
    def _hours(upkeep: Upkeep) -> int:
        return max(_LEAST_HOURS, -(-upkeep.versions_retention // timedelta(hours=1)))

    def _set_retention(self, hours: int, properties: CommitProperties) -> None:
        """Make it the table's own property: what cleans the log goes by that, here and elsewhere."""
        wanted = _retention(hours)
        if not wanted.items() <= self._table.metadata().configuration.items():
            self._table.alter.set_table_properties(
                dict(wanted), commit_properties=properties, post_commithook_properties=_NO_HOOKS
            )


class DeltaTableWriter(TableWriter):
    """The one writer of a table in Delta."""

    def __init__(self, root: str, spec: TableSpec, options: dict[str, str] | None = None) -> None:
        super().__init__(DeltaVersions(root, spec, options), str(uuid.uuid4()))


def _properties(stamp: Stamp) -> CommitProperties:
    """Commit properties; the newest info rides on every commit, so that the newest commit always has it."""
    metadata = {WRITER_KEY: stamp.writer}
    if stamp.info:
        metadata[COMMIT_INFO_KEY] = json.dumps(stamp.info, separators=(",", ":"))
    transactions = [Transaction(stamp.app_id, stamp.version)] if stamp.app_id is not None else []
    return CommitProperties(custom_metadata=metadata, app_transactions=transactions, max_commit_retries=0)


@contextmanager
def _errors() -> Iterator[None]:
    """Translate delta-rs's errors."""
    try:
        yield
    except CommitFailedError as error:
        raise NotCommittedError(str(error)) from error
    except (DeltaError, OSError) as error:
        raise TableStoreError(f"{type(error).__name__}: {error}") from error
