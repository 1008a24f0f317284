"""The process that looks after the tables while the job commits batches: `python -m sharegroup.commit.upkeep_worker`.

A process of its own, as upkeep would hold up batches in theirs: it has its own memory and interpreter, and gives way to
whoever needs the processor. It reads a JSON line from its standard input for each upkeep that is wanted and answers
with a line when it is through; it ends when its input does.

    {"specs": ["share_group_state", "delivery_log"], "leader_epoch": 3}   ->   {"took_ms": 41, "problem": null}

Die anywhere: each step is one commit, and the next upkeep does what is left.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sharegroup.commit.delta_table import DeltaVersions
from sharegroup.commit.retention import prunable
from sharegroup.commit.table_upkeep import TableUpkeep
from sharegroup.commit.versioned_table import Upkeep
from sharegroup.errors import ShareGroupError
from sharegroup.tables.schemas import ALL_TABLES

_NICENESS = 10


class UpkeepWorker:
    """Looks after the tables that it is told of. `settings` is what `upkeep_process.settings` made."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._tables_path, self._options = settings["tables_path"], settings["storage_options"] or None
        self._retention = timedelta(milliseconds=settings["retention_ms"])
        self._local_versions, self._log_retention_ms = settings["local_versions"], settings["log_retention_ms"]
        self._id = str(uuid.uuid4())
        self._tables: dict[str, TableUpkeep] = {}

    def run(self, names: list[str], leader_epoch: int) -> None:
        """The upkeep of these tables for a leader. Raises ShareGroupError when one of them has another leader, or is
        away."""
        prune_before = prunable(self._tables_path, self._log_retention_ms, names, options=self._options)
        for name in names:
            upkeep = Upkeep(self._retention, self._local_versions, prune_before.get(name))
            self._table(name).run(leader_epoch, upkeep)

    def _table(self, name: str) -> TableUpkeep:
        if name not in self._tables:
            spec = next(spec for spec in ALL_TABLES if spec.name == name)
            self._tables[name] = TableUpkeep(DeltaVersions(self._tables_path, spec, self._options), self._id)
        return self._tables[name]


def _answer(worker: UpkeepWorker, request: Mapping[str, Any]) -> dict[str, Any]:
    begin, problem = time.monotonic(), None
    try:
        worker.run(request["specs"], request["leader_epoch"])
    except ShareGroupError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the next upkeep may be better
        problem = f"{type(error).__name__}: {error}"
    return {"took_ms": round(1000 * (time.monotonic() - begin)), "problem": problem}


def main() -> int:
    """Serve until the input ends; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the job's, which ends this process in order
    os.nice(_NICENESS)
    worker = UpkeepWorker(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        print(json.dumps(_answer(worker, json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
