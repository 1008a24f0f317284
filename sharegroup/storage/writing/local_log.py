"""The log of a Delta table on a local disk, kept short.

An object store lists a log from a given name on. A local disk lists the whole directory, which delta-rs does twice for
each commit at 2 µs a file: after 5,000 micro-batches a commit took twice as long as at first, after a day it would take
a second. So on a local disk versions are kept by number as well as by time (`tables.local.versions`).
"""

from __future__ import annotations

import re
import time
from pathlib import Path

_LOG_FILE = re.compile(r"(\d{20})\.(json|crc|checkpoint\..*)")


def trim_local_log(table_path: str, newest_version: int, keep: int) -> int:
    """Remove the log files below the newest checkpoint that the last `keep` versions can be read from; their number.

    Nothing is done to a table on an object store.
    """
    log = local_log(table_path)
    if log is None:
        return 0
    versions = {path: int(found[1]) for path in log.iterdir() if (found := _LOG_FILE.fullmatch(path.name))}
    checkpoints = [version for path, version in versions.items() if ".checkpoint." in path.name]
    first = max((version for version in checkpoints if version <= newest_version - keep), default=0)
    gone = sorted((version, path) for path, version in versions.items() if version < first)
    for _, path in gone:  # the oldest first: what is left when we die in between still has no gap
        path.unlink(missing_ok=True)
    return len(gone)


def kept_hours(table_path: str, newest_version: int, keep: int) -> int | None:
    """How old the last `keep` versions of a table on a local disk are at most, in hours, rounded up.

    None where no number of versions is kept: on an object store.
    """
    log = local_log(table_path)
    if log is None:
        return None
    oldest = log / f"{max(0, newest_version - keep):020}.json"
    try:
        age_s = time.time() - oldest.stat().st_mtime
    except FileNotFoundError:  # cut off by a job that kept fewer
        return 1
    return max(1, 1 + int(age_s // 3_600))


def local_log(table_path: str) -> Path | None:
    """The folder of the table's log, None for a table on an object store."""
    if "://" in table_path and not table_path.startswith("file://"):
        return None
    return Path(table_path.removeprefix("file://")) / "_delta_log"
