"""The process that maintains the tables while the job commits: `python -m sharegroup.storage.upkeep.upkeep_worker`.

Upkeep in the job's own process would delay batches. This process has its own memory and interpreter, and a low
priority. Each line of its standard input is JSON: the first line is the settings (`upkeep_process.upkeep_settings`),
and each other line is a request. When the upkeep of a request is done, the process writes one line of JSON to its
standard output. It ends when its input ends.

    {"specs": ["share_group_state", "delivery_log"], "leader_epoch": 3, "now_ms": 1767225600000}
    ->  {"took_ms": 41, "problem": null}

`now_ms` is the brokers' time; it decides which days of the tables are old. The vacuum deletes files according to this
machine's wall clock. While this clock is far ahead of the brokers' clocks, no upkeep runs.

A crash is harmless at any point: each step is one commit, and the next upkeep does the remaining steps.
"""

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
from sharegroup.storage.upkeep.retention import delivery_log_predicate, state_predicate
from sharegroup.storage.upkeep.state_base_upkeep import StateBaseUpkeep
from sharegroup.storage.upkeep.table_upkeep import TableUpkeep
from sharegroup.storage.writing.delta_table import DeltaVersions
from sharegroup.storage.writing.versioned_table import Upkeep

_NICENESS = 10
#: How far the wall clock may be ahead of the brokers' clocks, in seconds. This is much less than a day, which is the
#: minimum time for which versions are kept.
_MOST_AHEAD_S = 3_600


class WrongClockError(ShareGroupError):
    """The machine's clock is far ahead of the brokers' clocks, so upkeep would delete files too early."""


class UpkeepWorker:
    """Maintains the requested tables. `settings` comes from `upkeep_process.upkeep_settings`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._tables_path, self._options = settings["tables_path"], settings["storage_options"] or None
        self._upkeep = Upkeep(timedelta(milliseconds=settings["retention_ms"]), settings["local_versions"])
        self._is_synced = settings["local_sync"]
        self._log_retention_ms = settings["log_retention_ms"]
        self._id = str(uuid.uuid4())
        self._tables: dict[str, DeltaVersions] = {}
        self._base: StateBaseUpkeep | None = None

    def run(self, names: list[str], leader_epoch: int, now_ms: int) -> None:
        """Run the upkeep of these tables for a leader.

        Raises WrongClockError, and ShareGroupError if a table has another leader or is unavailable.
        """
        ahead_s = time.time() - now_ms / 1000
        if ahead_s > _MOST_AHEAD_S:
            raise WrongClockError(
                f"this machine's clock is {ahead_s:.0f} s ahead of the brokers' clocks: upkeep would delete files of "
                "tables too early; set the clock"
            )
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        for name in names:
            table = self._table(name)
            upkeep = TableUpkeep(table, self._id)
            upkeep.begin(leader_epoch)
            prune_before = self._prunable(name, table.handle, now)
            upkeep.finish(replace(self._upkeep, prune_before=prune_before))

    def _prunable(self, name: str, table: DeltaTable, now: datetime) -> str | None:
        """Return the predicate that selects the table's rows of old days; None if there are no such rows.

        For `share_group_state`, the base (`share_group_state_base`) is first rewritten if it is due, because it decides
        which days are old.
        """
        if name == DELIVERY_LOG.name:
            return delivery_log_predicate(table, self._log_retention_ms, now)
        if name == SHARE_GROUP_STATE.name:
            if self._base is None:
                self._base = StateBaseUpkeep(self._tables_path, self._options, is_synced=self._is_synced)
            return state_predicate(table, self._base.run(table, self._upkeep), now)
        return None

    def _table(self, name: str) -> DeltaVersions:
        if name not in self._tables:
            spec = next(spec for spec in ALL_TABLES if spec.name == name)
            self._tables[name] = DeltaVersions(self._tables_path, spec, self._options, self._is_synced)
        return self._tables[name]


def _run_request(worker: UpkeepWorker, request: Mapping[str, Any]) -> dict[str, Any]:
    begin, problem = time.monotonic(), None
    try:
        worker.run(request["specs"], request["leader_epoch"], request["now_ms"])
    except ShareGroupError as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - the next upkeep may succeed, whatever the error is
        problem = f"{type(error).__name__}: {error}"
    return {"took_ms": round(1000 * (time.monotonic() - begin)), "problem": problem}


def main() -> int:
    """Serve requests until the input ends, and return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the job handles Ctrl-C, and ends this process in order
    os.nice(_NICENESS)
    worker = UpkeepWorker(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        print(json.dumps(_run_request(worker, json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
