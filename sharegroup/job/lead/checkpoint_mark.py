"""A file in a query's checkpoint on a local disk that records what the checkpoint depends on.

Spark does not sync its checkpoint. After a power loss it may be torn (incomplete or damaged), or older or newer than
the tables. The tables alone are always sufficient, so a checkpoint that was in use before the machine's last boot is
dropped.

A checkpoint is also wrong if its tables have lost commits, for example because they were restored from a backup. Each
batch therefore records in this file the newest batch of each table. Checkpoints on object stores have no such file.
"""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sharegroup.storage.writing.local_sync import sync_paths

#: The file's name in the checkpoint's folder.
MARK = "sharegroup.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class CheckpointMark(NamedTuple):
    """The content of a checkpoint's mark file.

    Attributes:
        boot_id: identifies the boot of the machine during which the checkpoint was last used; empty if unknown.
        committed: by table name, the newest batch of this query in that table when the mark was written.
    """

    boot_id: str
    committed: Mapping[str, int]


class MarkFile:
    """The mark file in one checkpoint folder. For a folder on an object store, all methods do nothing."""

    def __init__(self, folder: str) -> None:
        is_local = "://" not in folder or folder.startswith("file://")
        self._path = Path(folder.removeprefix("file://")) / MARK if is_local else None
        self._boot_id = boot_id()

    def read(self) -> CheckpointMark | None:
        """Return the mark; None if there is none. A torn mark has no boot id and no batches."""
        if self._path is None or not self._path.exists():
            return None
        try:
            found = json.loads(self._path.read_bytes())
            return CheckpointMark(str(found["boot_id"]), {str(k): int(v) for k, v in found["committed"].items()})
        except (ValueError, KeyError, TypeError, AttributeError):
            return CheckpointMark("", {})

    def is_of_earlier_boot(self) -> bool:
        """Return whether the checkpoint was last used in an earlier boot of the machine. False if it has no mark.

        A torn mark counts as that of an earlier boot, unless the system provides no boot id.
        """
        mark = self.read()
        return mark is not None and mark.boot_id != self._boot_id

    def begin(self, committed: Mapping[str, int]) -> None:
        """Write and sync the mark at a start of the query. Raises OSError."""
        self.write(committed)
        if self._path is not None:
            sync_paths([self._path, self._path.parent])

    def write(self, committed: Mapping[str, int]) -> None:
        """Write the mark without a sync; after a power loss the checkpoint is dropped anyway. Raises OSError."""
        if self._path is not None:
            scratch = self._path.with_name(f".{MARK}")
            scratch.write_text(json.dumps({"boot_id": self._boot_id, "committed": dict(committed)}), encoding="utf-8")
            scratch.replace(self._path)


def boot_id() -> str:
    """Return the id of the machine's current boot; empty if the system does not provide one."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    return ""
