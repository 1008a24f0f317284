"""The interface of a table with versions, in which each commit is a compare-and-set on the newest version.

`delta_table` implements it with Delta, and the tests implement it in memory. With both, `fence` decides who may write.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from sharegroup.errors import ShareGroupError
from sharegroup.storage.schemas import TableSpec

#: A row by its columns, in the form of `pa.Table.from_pylist`.
Row = dict[str, Any]
#: This project's entry in a commit: the outbox of a micro-batch and its positions in the request topic (see
#: `commit_steps`).
Info = dict[str, Any]


class TableStoreError(ShareGroupError):
    """The store failed; `__cause__` has the original error."""


class NotCommittedError(TableStoreError):
    """A commit failed, because another writer committed that version first or the store reported an error.

    After an error of the store, the commit may have been applied nevertheless.
    """


class Commit(NamedTuple):
    """A commit in the table's log.

    `writer` is the id of the `TableWriter` or of the upkeep that made the commit. It is None if another tool made it.
    `rearranges` is whether the commit changed no row that is needed. This is true of all commits of upkeep, which may
    also delete old days, and of the compactions (OPTIMIZE) and vacuums of other tools.
    """

    writer: str | None
    rearranges: bool
    info: Info | None


class Write(NamedTuple):
    """The content of a commit: rows that replace all rows of `chunks`, or that are added if there are no chunks."""

    rows: Sequence[Row]
    chunks: Collection[int] = ()


@dataclass(frozen=True)
class Stamp:
    """A commit's metadata.

    Attributes:
        writer: the id of the writer.
        info: the info of the newest micro-batch: its outbox and its positions in the request topic.
        app_id: Delta's transaction id; None for a commit of upkeep.
        version: the version of the transaction, for example the batch id.
        is_upkeep: whether the commit is upkeep.
    """

    writer: str
    info: Info | None
    app_id: str | None = None
    version: int = 0
    is_upkeep: bool = False


@dataclass(frozen=True)
class Upkeep:
    """The settings of one upkeep of a table.

    Attributes:
        versions_retention: how long old versions are kept.
        local_versions: the maximum number of versions on a local disk.
        prune_before: a predicate over `day` for the rows to delete; None if there are none.
    """

    versions_retention: timedelta
    local_versions: int
    prune_before: str | None = None


class VersionedTable(Protocol):
    """A handle on a table. It stays at its version until it commits or is refreshed.

    All methods raise TableStoreError while the store is unavailable.
    """

    @property
    def spec(self) -> TableSpec:
        """The table's name and schema."""

    @property
    def version(self) -> int:
        """The table version that this handle reads. The table may have a newer one."""

    def refresh(self) -> None:
        """Move the handle to the newest version of the table."""

    def transaction_version(self, app_id: str) -> int | None:
        """Return the highest transaction version (such as a batch id) of Delta's transaction id `app_id`.

        Return None if no commit to this table has this transaction id.
        """

    def commits(self, count: int) -> Sequence[Commit]:
        """Return the last `count` commits up to the handle's version, newest first; fewer if the log was shortened."""

    def rows(self) -> list[Row]:
        """Return all rows at the handle's version."""

    def at(self, version: int) -> VersionedTable:
        """Return a handle for reading an older version. Raises TableStoreError if that version was deleted."""

    def restore(self, version: int, stamp: Stamp) -> None:
        """Commit the rows of the older version `version` as a new version, and move the handle to the new version.

        The new version follows the handle's version. Transaction versions are not restored: those of later commits
        remain. Raises NotCommittedError if the commit fails.
        """

    def write(self, write: Write, stamp: Stamp) -> None:
        """Commit a write as the version after the handle's version, and move the handle to this new version.

        Raises NotCommittedError if the commit fails, for example because a commit with this version exists already.
        """

    def sync(self) -> None:
        """Make all commits up to the handle's version survive a power loss, before returning."""

    def upkeep(self, upkeep: Upkeep, stamp: Stamp) -> None:
        """Compact the table's files, shorten its log, and delete the rows of old days. Raises NotCommittedError.

        Rows that others append meanwhile do not cause a failure. The handle is then at a version that contains them.
        """
