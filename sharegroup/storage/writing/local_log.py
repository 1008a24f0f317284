"""Keeps the log of a Delta table on a local disk short.

delta-rs lists the log twice for each commit. An object store can list only the newest entries, but a local disk lists
the whole directory, at 2 µs per file. After 5,000 micro-batches a commit took twice as long, and after a day it would
take a second. On a local disk, versions are therefore also limited by number (`tables.local.versions`).
"""

import re
import time
from pathlib import Path

_LOG_FILE = re.compile(r"(\d{20})\.(json|crc|checkpoint\..*)")


def trim_local_log(table_path: str, newest_version: int, keep: int) -> int:
    """Remove old files of a table's log on a local disk, and return the number of removed files.

    The newest checkpoint that is at least `keep` versions old is kept, with all later log files. The last `keep`
    versions can be read without the earlier log files, so these are removed. If there is no such checkpoint, or if the
    table is on an object store, nothing is removed.
    """
    log = local_log(table_path)
    if log is None:
        return 0
    versions = {path: int(found[1]) for path in log.iterdir() if (found := _LOG_FILE.fullmatch(path.name))}
    checkpoints = [version for path, version in versions.items() if ".checkpoint." in path.name]
    first = max((version for version in checkpoints if version <= newest_version - keep), default=0)
    gone = sorted((version, path) for path, version in versions.items() if version < first)
    for _, path in gone:  # oldest first, so that a crash leaves no gap
        path.unlink(missing_ok=True)
    return len(gone)


def versions_age_hours(table_path: str, newest_version: int, keep: int) -> int | None:
    """Return the age of the oldest of the last `keep` versions, in hours, rounded up.

    Return 1 if this version was removed from the log. Return None for a table on an object store, where versions are
    not limited by number.
    """
    log = local_log(table_path)
    if log is None:
        return None
    oldest = log / f"{max(0, newest_version - keep):020}.json"
    try:
        age_s = time.time() - oldest.stat().st_mtime
    except FileNotFoundError:  # removed by a job that kept fewer versions
        return 1
    return max(1, 1 + int(age_s // 3_600))


def local_log(table_path: str) -> Path | None:
    """Return the folder of the table's log; None for a table on an object store."""
    if "://" in table_path and not table_path.startswith("file://"):
        return None
    return Path(table_path.removeprefix("file://")) / "_delta_log"
