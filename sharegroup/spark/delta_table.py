"""One Delta table and its one writer, by delta-rs.

The writer keeps one handle and never refreshes it before a commit; with `max_commit_retries=0` a commit is then a
compare-and-set on the table's version, and any foreign commit makes the next one fail: that is the fence
(engine trials: two writers with different transaction ids are not fenced by the ids). delta-rs does not skip a repeated
(appId, version), so `commit` compares before it writes.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from sharegroup.errors import FencedLeaderError
from sharegroup.spark.local_log import trim_local_log
from sharegroup.tables.schemas import TableSpec, table_path

logger = logging.getLogger(__name__)

#: Key of this project's entry in a commit's info: the batch's outbox and positions (see `spark.commit_steps`).
COMMIT_INFO_KEY = "sharegroup"
#: Key of a writer's own id in the info of each of its commits: by it a commit whose answer was lost is known again.
WRITER_KEY = "sharegroup.writer"
#: The transaction id under which each leader writes its epoch into every table; that commit fences the last leader.
LEADER_APP_ID = "sharegroup.leader_epoch"

_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_HISTORY_TO_SEARCH = 50
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


def last_commit_info(table: DeltaTable) -> dict[str, Any] | None:
    """This project's entry of the newest commit that has one, or None for a table that has none."""
    for commit in table.history(_HISTORY_TO_SEARCH):
        if COMMIT_INFO_KEY in commit:
            info: dict[str, Any] = json.loads(commit[COMMIT_INFO_KEY])
            return info
    return None


class DeltaTableWriter:
    """Appends to (or replaces the rows of) one table, fenced by the table's version.

    `lead` comes first; before that nothing may be written.
    """

    def __init__(self, root: str, spec: TableSpec, options: dict[str, str] | None = None) -> None:
        self.spec = spec
        self._path = table_path(root, spec)
        self._table = open_or_create(root, spec, options)
        self._id = str(uuid.uuid4())
        self._led_epoch = 0
        self._fenced: FencedLeaderError | None = None
        self._committed: dict[str, int] = {}
        #: This project's entry of the newest commit that has one (see `spark.commit_steps`), or None.
        self.last_info = last_commit_info(self._table)

    @property
    def version(self) -> int:
        """The table's version as this writer knows it."""
        return self._table.version()

    @property
    def leader_epoch(self) -> int:
        """The highest leader epoch written into the table, 0 before the first."""
        return self._table.transaction_version(LEADER_APP_ID) or 0

    @property
    def fenced_by(self) -> FencedLeaderError | None:
        """What fenced this writer, None while nothing did."""
        return self._fenced

    def lead(self, leader_epoch: int) -> None:
        """Write the leader epoch as a commit of its own; the writer of a lower epoch fails from here on.

        Raises FencedLeaderError when another leader got in between.
        """
        self._write(self.spec.schema.empty_table(), "append", LEADER_APP_ID, leader_epoch)
        self._led_epoch = leader_epoch

    def committed(self, app_id: str) -> int:
        """The highest batch id that `app_id` committed here, -1 for none.

        Looked up once, for it takes half as long as a commit: nobody else commits later without fencing this writer.
        """
        if app_id not in self._committed:
            version = self._table.transaction_version(app_id)
            self._committed[app_id] = -1 if version is None else version
        return self._committed[app_id]

    def commit(self, app_id: str, batch_id: int, rows: pa.Table, info: dict[str, Any] | None = None) -> bool:
        """Append the rows, or for a table of current state replace all rows by them.

        Returns False, having written nothing, when `app_id` committed this batch or a later one before. Raises
        FencedLeaderError when any other writer committed since this one's last commit.
        """
        if self.committed(app_id) >= batch_id:
            return False
        if info is not None:
            self.last_info = info
        self._write(rows, "append" if self.spec.is_append_only else "overwrite", app_id, batch_id)
        self._committed[app_id] = batch_id
        return True

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows at the writer's version."""
        return self._table.to_pyarrow_table(columns=list(columns) if columns else None)

    def upkeep(
        self,
        versions_retention: timedelta,
        local_versions: int,
        prune_before: str | None,
        now: datetime | None = None,
    ) -> None:
        """Bound the number of live files and the log: compact, checkpoint, clean, vacuum, drop old days.

        Cost follows the number of live files (engine trials: 16 to 186 ms an append in 2,400 commits without this, a
        constant 8 ms with it). Old versions stay for `versions_retention`, and on a local disk the newest
        `local_versions` of them (see `spark.local_log`). `prune_before` is a predicate over the partition column, or
        None. Runs in the writer's own thread on the writer's own handle; a foreign commit raises FencedLeaderError like
        everywhere else. That needs looking, for delta-rs rebases these commits on foreign ones, and takes the handle
        past them.
        """
        with _Fence(self):
            known = self.version
            self._table.update_incremental()
        if self.version != known:
            raise self.fenced("there are commits that are not of this writer")
        properties = self._properties()
        hours = max(_LEAST_HOURS, -(-versions_retention // timedelta(hours=1)))
        with _Fence(self):
            self._set_retention(hours)
            if prune_before is not None:
                self._table.delete(prune_before, commit_properties=properties, post_commithook_properties=_NO_HOOKS)
            self._table.optimize.compact(commit_properties=properties, post_commithook_properties=_NO_HOOKS)
            self._table.create_checkpoint()
            self._table.cleanup_metadata()
            trim_local_log(self._path, self.version, local_versions)
            self._table.vacuum(
                retention_hours=hours, dry_run=False, enforce_retention_duration=False,
                commit_properties=properties, post_commithook_properties=_NO_HOOKS,
            )  # fmt: skip
        if self.leader_epoch != self._led_epoch:
            raise self.fenced("it did so during the upkeep")
        logger.debug("upkeep of %s at version %d, %s", self.spec.name, self.version, now or datetime.now(timezone.utc))

    def _set_retention(self, hours: int) -> None:
        """Make it the table's own property: what cleans the log goes by that, here and elsewhere."""
        wanted = _retention(hours)
        if not wanted.items() <= self._table.metadata().configuration.items():
            self._table.alter.set_table_properties(
                dict(wanted), commit_properties=self._properties(), post_commithook_properties=_NO_HOOKS
            )

    def _properties(self, *transactions: Transaction) -> CommitProperties:
        """Commit properties; the newest info rides on every commit, so that the newest commit always has it."""
        metadata = {WRITER_KEY: self._id}
        if self.last_info:
            metadata[COMMIT_INFO_KEY] = json.dumps(self.last_info, separators=(",", ":"))
        return CommitProperties(
            custom_metadata=metadata,
            app_transactions=list(transactions),
            max_commit_retries=0,
        )

    def _write(self, rows: pa.Table, mode: Literal["append", "overwrite"], app_id: str, version: int) -> None:
        with _Fence(self):
            write_deltalake(
                self._table,
                rows,
                mode=mode,
                commit_properties=self._properties(Transaction(app_id, version)),
                post_commithook_properties=_NO_HOOKS,
            )

    def has_committed(self, error: CommitFailedError, known: int) -> bool:
        """Reload after a commit at version `known` failed: whether it is there, and only its answer was lost.

        False when nobody has written since: then the store is to blame. Raises FencedLeaderError when another did.
        """
        self._table.update_incremental()
        if self.version == known:
            return False
        if any(commit.get(WRITER_KEY) != self._id for commit in self._table.history(self.version - known)):
            raise self.fenced(error) from error
        logger.warning("a commit to %s failed, and is there: %s", self.spec.name, error)
        return True

    def fenced(self, cause: DeltaError | str) -> FencedLeaderError:
        """Say who leads now. From here on this writer refuses to write."""
        try:
            self._table.update_incremental()
            newest = f"leader epoch {self.leader_epoch}, version {self.version}"
        except DeltaError as error:  # the table itself is unreadable: say that instead
            newest = str(error)
        self._fenced = FencedLeaderError(
            f"FENCED_LEADER_EPOCH: another writer committed to {self.spec.name} (mine: leader epoch {self._led_epoch}; "
            f"there now: {newest}); one job may write to a set of tables: {cause}"
        )
        return self._fenced


class _Fence:
    """Around commits: what delta-rs calls a conflict is looked into; once fenced, nothing gets in any more."""

    def __init__(self, writer: DeltaTableWriter) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        if self._writer.fenced_by is not None:
            raise self._writer.fenced_by
        self._known = self._writer.version

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, CommitFailedError) and self._writer.has_committed(error, self._known)
