"""The job and Spark members decide nothing by a wall clock: whoever reads one says here what for."""

from __future__ import annotations

import re
from pathlib import Path

import sharegroup

ROOT = Path(sharegroup.__file__).parent
#: What runs in the job, its sources and its operators, and in members.
PACKAGES = ("core", "job", "kafka_clients", "member", "spark", "storage")
_WALL_CLOCK = re.compile(r"time\.time(_ns)?\(|datetime\.(now|utcnow|today)\(|date\.today\(|currentTimeMillis")
READERS = {
    "job/cells/group_move.py": "a stamp on rows that are moved",
    "job/commit/job_metrics.py": "ages in metrics",
    "storage/writing/leaders.py": "a stamp on the row of a start",
    "storage/writing/local_log.py": "compares with times of files, which have the same clock",
    "storage/upkeep/state_base_upkeep.py": "compares with times of files, which have the same clock",
    "storage/upkeep/upkeep_worker.py": "refuses to delete by it when it is far ahead",
    "kafka_clients/row_topics/row_channel.py": "a guess until the first append is answered",
}


def test_nothing_else_reads_a_wall_clock() -> None:
    found = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if _WALL_CLOCK.search(path.read_text())
    }
    assert found == READERS.keys()
