"""Makes commits to a table on a local disk survive a power loss (`tables.local.sync`).

delta-rs writes data files and log entries without a sync, so the operating system decides when they reach the disk. A
power loss within some seconds after a commit can therefore remove the commit, or leave an empty or partial file. An
object store responds to a write after it is durable, so nothing is done there.

A commit builds on all commits before it. A writer therefore also syncs the log entries that other writers, for example
upkeep, have added since its last commit.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from sharegroup.storage.writing.local_log import local_log

#: When a writer opens a table, this many of the newest log entries may not be on the disk yet: the last commit of a
#: crashed job, and the commits of one upkeep. They are synced first.
_UNSYNCED_ENTRIES = 20


class LocalSync:
    """Syncs (fsync) commits to one table for one writer, so that they survive a power loss.

    Does nothing if `is_on` is False, or on an object store.
    """

    def __init__(self, table_path: str, is_on: bool = True) -> None:
        self._log = local_log(table_path) if is_on else None
        self._synced: int | None = None

    def sync(self, newest: int) -> None:
        """Sync the log entries up to the version `newest` that were not synced before, with their data files.

        Raises OSError.
        """
        if self._log is None:
            return
        first = newest - _UNSYNCED_ENTRIES if self._synced is None else self._synced
        if first >= newest:
            return
        entries = [entry_path(self._log, version) for version in range(max(0, first + 1), newest + 1)]
        data = [self._log.parent / path for entry in entries for path in added_files(entry)]
        folders = {path.parent for path in data} | {self._log, self._log.parent}
        if self._synced is None:
            folders.add(self._log.parent.parent)
        sync_paths([*data, *entries, *folders])
        self._synced = newest

    def sync_checkpoint(self, version: int) -> None:
        """Sync the log's checkpoint of a version and the pointer to it. Raises OSError."""
        if self._log is not None:
            files = self._log.glob(f"{version:020}.checkpoint*.parquet")
            sync_paths([*files, self._log / "_last_checkpoint", self._log])


def entry_path(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"


def added_files(entry: Path) -> Iterator[str]:
    """Yield the paths of the data files that a log entry adds, relative to the table's folder."""
    with contextlib.suppress(FileNotFoundError):  # the log was cut meanwhile
        for line in entry.read_bytes().splitlines():
            if line.startswith(b'{"add"'):
                yield unquote(json.loads(line)["add"]["path"])


def sync_paths(paths: Iterable[Path]) -> None:
    """Sync files and folders. Missing ones are skipped, because upkeep has removed them. Raises OSError."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
