"""The interface of a table for the fence: versions, and commits that are a compare-and-set on them.

`delta_table` implements it in Delta, and the harness of the tests in memory. `fence` decides for both who may write.
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
#: This project's entry in a commit: the batch's outbox and positions (see `commit_steps`).
Info = dict[str, Any]


class TableStoreError(ShareGroupError):
    """The store failed; `__cause__` has the original error."""


class NotCommittedError(TableStoreError):
    """A commit failed: another writer made that version, or the store reported an error. It may be applied anyway."""


class Commit(NamedTuple):
    """A commit in the table's log.

    `writer` is the id of the job's writer that made it; None for any other tool. `rearranges` marks upkeep: the same
    rows are in other files, or unneeded ones (rows of old days, unused files) were removed.
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
    """A commit's metadata. `app_id` and `version` are its transaction; None for a commit with `is_upkeep`."""

    writer: str
    info: Info | None
    app_id: str | None = None
    version: int = 0
    is_upkeep: bool = False


@dataclass(frozen=True)
class Upkeep:
    """How long old versions stay, and their maximum number on a local disk.

    `prune_before` is a predicate over `day` for the rows to delete.
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
        """The handle's version."""

    def refresh(self) -> None:
        """Go to the newest version."""

    def transaction_version(self, app_id: str) -> int | None:
        """Return the newest version that was committed under a transaction id; None if there is no such version."""

    def commits(self, count: int) -> Sequence[Commit]:
        """Return the last `count` commits up to the handle's version, newest first; fewer where the log is cut."""

    def rows(self) -> list[Row]:
        """Return all rows at the handle's version."""

    def at(self, version: int) -> VersionedTable:
        """Return a handle at an older version for reading. Raises TableStoreError if it is no longer kept."""

    def restore(self, version: int, stamp: Stamp) -> None:
        """Commit the rows of an older version as the version after the handle's. Transaction ids do not change.

        Raises NotCommittedError.
        """

    def write(self, write: Write, stamp: Stamp) -> None:
        """Commit a write as the version after the handle's; the handle then has that version.

        Raises NotCommittedError, also if the version exists already, whatever it contains.
        """

    def sync(self) -> None:
        """Return when the commits up to the handle's version survive a power loss."""

    def upkeep(self, upkeep: Upkeep, stamp: Stamp) -> None:
        """Compact the table's files, shorten its log, and delete the rows of old days. Raises NotCommittedError.

        It tolerates rows that others append meanwhile, and moves the handle past them.
        """
