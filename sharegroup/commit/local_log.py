"""The log of a Delta table on a local disk, kept short.

An object store lists a log from a given name on. A local disk lists the whole directory, which delta-rs does twice for
each commit at 2 µs a file: after 5,000 micro-batches a commit took twice as long as at first, after a day it would take
a second. So on a local disk versions are kept by number as well as by time (`tables.local.versions`).
"""

from __future__ import annotations

import re
from pathlib import Path

_LOG_FILE = re.compile(r"(\d{20})\.(json|crc|checkpoint\..*)")


def trim_local_log(table_path: str, newest_version: int, keep: int) -> int:
    """Remove the log files below the newest checkpoint that the last `keep` versions can be read from; their number.

    Nothing is done to a table on an object store.
    """
    if "://" in table_path and not table_path.startswith("file://"):
        return 0
    log = Path(table_path.removeprefix("file://")) / "_delta_log"
    versions = {path: int(found[1]) for path in log.iterdir() if (found := _LOG_FILE.fullmatch(path.name))}
    checkpoints = [version for path, version in versions.items() if ".checkpoint." in path.name]
    first = max((version for version in checkpoints if version <= newest_version - keep), default=0)
    gone = sorted((version, path) for path, version in versions.items() if version < first)
    for _, path in gone:  # the oldest first: what is left when we die in between still has no gap
        path.unlink(missing_ok=True)
    return len(gone)
