"""The process that looks after the tables while the job commits batches: `python -m
sharegroup.storage.upkeep.upkeep_worker`.

A process of its own, as upkeep would hold up batches in theirs: it has its own memory and interpreter, and gives way to
whoever needs the processor. It reads a JSON line from its standard input for each upkeep that is wanted and answers
with a line when it is through; it ends when its input does.

    {"specs": ["share_group_state", "delivery_log"], "leader_epoch": 3, "now_ms": 1767225600000}
    ->  {"took_ms": 41, "problem": null}

`now_ms` is the brokers' time: days of the tables are old by it. Files are vacuumed by this machine's wall clock, so
nothing is done while that is far ahead of the brokers'.

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
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake import DeltaTable

from sharegroup.errors import ShareGroupError
from sharegroup.storage.schemas import ALL_TABLES, DELIVERY_LOG, SHARE_GROUP_STATE
from sharegroup.storage.upkeep.retention import prunable_delivery_log, prunable_state
from sharegroup.storage.upkeep.state_base_upkeep import StateBaseUpkeep
from sharegroup.storage.upkeep.table_upkeep import TableUpkeep
from sharegroup.storage.writing.delta_table import DeltaVersions
from sharegroup.storage.writing.versioned_table import Upkeep

_NICENESS = 10
#: So far the wall clock may be ahead of the brokers', in seconds: little, compared with a day of versions that is kept.
_MOST_AHEAD_S = 3_600


class WrongClockError(ShareGroupError):
    """The machine's clock is far ahead of the brokers'."""


class UpkeepWorker:
    """Looks after the tables that it is told of. `settings` is what `upkeep_process.settings` made."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._tables_path, self._options = settings["tables_path"], settings["storage_options"] or None
        self._upkeep = Upkeep(timedelta(milliseconds=settings["retention_ms"]), settings["local_versions"])
        self._is_synced = settings["local_sync"]
        self._log_retention_ms = settings["log_retention_ms"]
        self._id = str(uuid.uuid4())
        self._tables: dict[str, DeltaVersions] = {}
        self._base: StateBaseUpkeep | None = None

    def run(self, names: list[str], leader_epoch: int, now_ms: int) -> None:
        """The upkeep of these tables for a leader. Raises ShareGroupError when one of them has another leader, or is
        away, and WrongClockError."""
        ahead_s = time.time() - now_ms / 1000
        if ahead_s > _MOST_AHEAD_S:
            raise WrongClockError(
                f"this machine's clock is {ahead_s:.0f} s ahead of the brokers': files of tables would be deleted too "
                "early; set the clock"
            )
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        for name in names:
            table = self._table(name)
            upkeep = TableUpkeep(table, self._id)
            upkeep.begin(leader_epoch)
            prune_before = self._prunable(name, table.handle, now)
            upkeep.finish(replace(self._upkeep, prune_before=prune_before))

    def _prunable(self, name: str, table: DeltaTable, now: datetime) -> str | None:
        """The base is written first: old days go by it."""
        if name == DELIVERY_LOG.name:
            return prunable_delivery_log(table, self._log_retention_ms, now)
        if name == SHARE_GROUP_STATE.name:
            if self._base is None:
                self._base = StateBaseUpkeep(self._tables_path, self._options, is_synced=self._is_synced)
            return prunable_state(table, self._base.run(table, self._upkeep), now)
        return None

    def _table(self, name: str) -> DeltaVersions:
        if name not in self._tables:
            spec = next(spec for spec in ALL_TABLES if spec.name == name)
            self._tables[name] = DeltaVersions(self._tables_path, spec, self._options, self._is_synced)
        return self._tables[name]


def _answer(worker: UpkeepWorker, request: Mapping[str, Any]) -> dict[str, Any]:
    begin, problem = time.monotonic(), None
    try:
        worker.run(request["specs"], request["leader_epoch"], request["now_ms"])
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
