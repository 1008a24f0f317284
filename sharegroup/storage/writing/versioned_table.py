"""What the fence needs of a table, whatever keeps it: versions, and commits that are a compare-and-set on them.

`delta_table` keeps tables in Delta, `testing.tables.memory_tables` in memory. Who may write is decided above, once for
both, in `fence`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from sharegroup.errors import ShareGroupError
from sharegroup.storage.schemas import TableSpec

#: A row by its columns, as `pa.Table.from_pylist` takes it.
Row = dict[str, Any]
#: This project's entry in a commit: the batch's outbox and positions (see `commit_steps`).
Info = dict[str, Any]


class TableStoreError(ShareGroupError):
    """The store did not do what was asked; the cause is kept."""


class NotCommittedError(TableStoreError):
    """A commit failed: somebody else made that version, or the store says so. It may be there all the same."""


class Commit(NamedTuple):
    """A commit as the table's log tells it.

    `writer` is the id of the job's writer that made it, None for anybody else's. `rearranges`: it is upkeep's. The same
    rows are in other files, or what nobody needs is gone: old days, files that no version has.
    """

    writer: str | None
    rearranges: bool
    info: Info | None


class Write(NamedTuple):
    """What a commit writes: rows, in place of all rows of `chunks`. Without these the rows are added."""

    rows: Sequence[Row]
    chunks: Collection[int] = ()


@dataclass(frozen=True)
class Stamp:
    """What a commit says of itself. `app_id` and `version` are its transaction, None for one that `is_upkeep`."""

    writer: str
    info: Info | None
    app_id: str | None = None
    version: int = 0
    is_upkeep: bool = False


@dataclass(frozen=True)
class Upkeep:
    """How long old versions stay, on a local disk also how many of them, and a predicate over `day` for old days."""

    versions_retention: timedelta
    local_versions: int
    prune_before: str | None = None


class VersionedTable(Protocol):
    """A handle on a table. It stays at its version until it commits or is refreshed.

    Each method raises TableStoreError while the store is away.
    """

    @property
    def spec(self) -> TableSpec:
        """The table's name and form."""

    @property
    def version(self) -> int:
        """The handle's version."""

    def refresh(self) -> None:
        """Go to the newest version."""

    def transaction_version(self, app_id: str) -> int | None:
        """The newest version that was committed under a transaction id, None for none."""

    def commits(self, count: int) -> Sequence[Commit]:
        """The last `count` commits up to the handle's version, the newest first; fewer where the log is cut."""

    def rows(self) -> list[Row]:
        """All rows at the handle's version."""

    def at(self, version: int) -> VersionedTable:
        """A handle at an older version, to look at. Raises TableStoreError when that is not kept any more."""

    def restore(self, version: int, stamp: Stamp) -> None:
        """Commit the rows of an older version as the version after the handle's. Transaction ids stay as they are.

        Raises NotCommittedError.
        """

    def write(self, write: Write, stamp: Stamp) -> None:
        """Write as the version after the handle's; the handle goes there.

        Raises NotCommittedError, also when there is such a version already, whatever it wrote.
        """

    def sync(self) -> None:
        """Return when the commits up to the handle's version survive a power loss."""

    def upkeep(self, upkeep: Upkeep, stamp: Stamp) -> None:
        """Bound the number of live files and the log, drop old days. Raises NotCommittedError.

        It goes over the rows that others append meanwhile, and takes the handle past them.
        """
