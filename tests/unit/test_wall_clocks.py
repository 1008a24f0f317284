"""The job and Spark members decide nothing by a wall clock: whoever reads one says here what for."""

from __future__ import annotations

import re
from pathlib import Path

import sharegroup

ROOT = Path(sharegroup.__file__).parent
#: What runs in the job, its sources and its operators, and in members.
PACKAGES = (
    "commit", "engine", "group_coordinator", "member", "share_coordinator", "share_partition", "spark", "tables",
    "topics", "watch",
)  # fmt: skip
_WALL_CLOCK = re.compile(r"time\.time(_ns)?\(|datetime\.(now|utcnow|today)\(|date\.today\(|currentTimeMillis")
READERS = {
    "commit/group_move.py": "a stamp on rows that are moved",
    "commit/job_metrics.py": "ages in metrics",
    "commit/leaders.py": "a stamp on the row of a start",
    "commit/local_log.py": "compares with times of files, which have the same clock",
    "commit/state_base_upkeep.py": "compares with times of files, which have the same clock",
    "commit/upkeep_worker.py": "refuses to delete by it when it is far ahead",
    "topics/row_channel.py": "a guess until the first append is answered",
}


def test_nothing_else_reads_a_wall_clock() -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if _WALL_CLOCK.search(path.read_text())
    }
    assert found == READERS.keys()
