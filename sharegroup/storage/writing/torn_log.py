"""Recovers the log of a table on a local disk after a power loss.

Files that were not on the disk when the power failed are missing, empty, truncated, or full of zeros. delta-rs reads an
empty log entry as an empty commit, and fails if an entry has any other of these defects. A job therefore checks the
newest log entries before it opens its tables. An entry is torn if it is damaged, or if it adds a data file that is
missing or damaged. All entries from the first torn one on are moved aside (`.torn` is appended to their names), as if
they had never been committed. Checkpoints of the log that are damaged, or that include a torn entry, are moved aside
too.

With `tables.local.sync`, the job has sent no responses that depend on a torn entry. If the batch's commit to the first
table of its query (`share_group_state` or `share_groups`) is lost, the batch runs again. Otherwise, the rows of the
other tables are restored from the outboxes in the first table's commits.

Version numbers are reused afterwards. `share_group_state_base` is computed from `share_group_state`, and its entries
name the version that they were computed from. An entry that names a lost version therefore counts as torn, too.
"""

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sharegroup.log_fields import LogFields
from sharegroup.storage.schemas import ALL_TABLES, SHARE_GROUP_STATE, SHARE_GROUP_STATE_BASE, table_path
from sharegroup.storage.writing.delta_commit import is_batch
from sharegroup.storage.writing.local_log import local_log
from sharegroup.storage.writing.local_sync import entry_path, sync_paths

logger = logging.getLogger(__name__)

_ENTRY = re.compile(r"(\d{20})\.json")
#: How many of the newest entries are checked. Earlier entries had enough time to reach the disk.
_EXAMINED = 100
_TORN = ".torn"
_LAST_CHECKPOINT = "_last_checkpoint"
_PARQUET_ENDS = b"PAR1"
#: The operations whose log entries always have other actions than `commitInfo`.
_WITH_ACTIONS = frozenset({"CREATE TABLE", "OPTIMIZE", "SET TBLPROPERTIES"})
#: The prefix of the transaction ids of commits that belong to no batch.
_OF_NO_BATCH = "sharegroup."


@dataclass(frozen=True)
class _Entry:
    """A parsed log entry.

    Attributes:
        version: the version of the table that the entry creates.
        problem: why the entry cannot be kept; empty for a valid entry.
        adds: the `add` actions, which add data files.
        removes: the paths of the data files that the entry removes.
        batches: descriptions of the micro-batches that the entry commits, for use in log messages.
    """

    version: int
    problem: str = ""
    adds: Sequence[Mapping[str, Any]] = ()
    removes: Sequence[str] = ()
    batches: Sequence[str] = ()


def recover_torn_tables(tables_path: str) -> list[str]:
    """Recover all tables of a job after a power loss, and return the names of the tables that lost commits.

    The log entries from the first torn one on are moved aside, and a warning names the lost versions and batches.
    Tables on an object store are skipped. No job may run on these tables during the call. Raises OSError.
    """
    lost = [spec.name for spec in ALL_TABLES if _recover(table_path(tables_path, spec))]
    state, base = (table_path(tables_path, spec) for spec in (SHARE_GROUP_STATE, SHARE_GROUP_STATE_BASE))
    state_log = local_log(state)
    if state_log is not None and state_log.is_dir() and _recover(base, max(_versions(state_log), default=-1)):
        lost.append(SHARE_GROUP_STATE_BASE.name)
    return lost


def _recover(path: str, state_version: int | None = None) -> bool:
    """Recover one table; return whether commits were lost.

    `state_version` is only given for `share_group_state_base`, which is computed from `share_group_state`. It is the
    newest version of `share_group_state`. A log entry that was computed from a later, lost version counts as torn.
    """
    log = local_log(path)
    if log is None or not log.is_dir():
        return False
    entries = [_read(entry_path(log, version)) for version in _versions(log)[-_EXAMINED:]]
    torn = _first_torn(log, entries, state_version)
    _drop_checkpoints(log, torn)
    if torn is None:
        return False
    gone = [entry for entry in entries if entry.version >= torn.version]
    for entry in reversed(gone):  # newest first, so that a crash leaves no gap
        _move_aside(entry_path(log, entry.version))
    sync_paths([log])
    _report(log.parent.name, torn, gone)
    return True


def _versions(log: Path) -> list[int]:
    return sorted(int(found[1]) for path in log.iterdir() if (found := _ENTRY.fullmatch(path.name)))


def _read(path: Path) -> _Entry:
    version, text = int(path.stem), path.read_bytes()
    if not text.strip():
        return _Entry(version, "its log entry is empty")
    try:
        actions = [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return _Entry(version, "its log entry is torn")
    adds = [action["add"] for action in actions if "add" in action]
    removes = [action["remove"]["path"] for action in actions if "remove" in action]
    transactions = [action["txn"] for action in actions if "txn" in action]
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    if (is_batch(info) and not transactions) or (len(actions) == 1 and _has_actions(info)):
        return _Entry(version, "its log entry is incomplete")
    batches = [f"batch {txn['version']} of query {txn['appId']}" for txn in transactions if _is_of_batch(txn)]
    return _Entry(version, "", adds, removes, batches)


def _is_of_batch(transaction: Mapping[str, Any]) -> bool:
    return not str(transaction["appId"]).startswith(_OF_NO_BATCH)


def _has_actions(info: Mapping[str, Any]) -> bool:
    """Return whether a log entry with this `commitInfo` should also contain other actions, such as `add`.

    If they are missing, the entry was only partly written.
    """
    metrics = info.get("operationMetrics", {})
    return info.get("operation") in _WITH_ACTIONS or bool(metrics.get("num_added_files"))


def _first_torn(log: Path, entries: Sequence[_Entry], state_version: int | None) -> _Entry | None:
    """Return the first entry that cannot be kept, or None if all can be kept.

    Such an entry is torn, or adds a file that is torn, missing, or made from a later version than `state_version`. A
    missing file is no problem if a later entry removes it.
    """
    whole = []
    torn: _Entry | None = None
    for entry in entries:
        if entry.problem:
            torn = entry
            break
        whole.append(entry)
    removed = {path for entry in whole for path in entry.removes}
    for entry in whole:
        problem = next(_problems(log.parent, entry, removed, state_version), "")
        if problem:
            return replace(entry, problem=problem)
    return torn


def _problems(table: Path, entry: _Entry, removed: set[str], state_version: int | None) -> Iterator[str]:
    for add in entry.adds:
        if add["path"] in removed:
            continue
        problem = _problem_of_file(table / unquote(add["path"]), add["size"])
        if problem:
            yield f"its data file {add['path']} is {problem}"
        if state_version is not None and _as_of_version(add) > state_version:
            yield f"it was made from a version of {SHARE_GROUP_STATE.name} that is lost"


def _problem_of_file(path: Path, size: int | None = None) -> str:
    """Return what is wrong with a Parquet file; an empty text if the file is valid."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno()).st_size
            if found < 2 * len(_PARQUET_ENDS) or size not in (None, found):
                return f"torn ({found} bytes{'' if size is None else f' of {size}'})"
            first = file.read(len(_PARQUET_ENDS))
            file.seek(-len(_PARQUET_ENDS), os.SEEK_END)
            return "" if first == file.read() == _PARQUET_ENDS else "torn"
    except FileNotFoundError:
        return "missing"


def _as_of_version(add: Mapping[str, Any]) -> int:
    least = json.loads(add.get("stats") or "{}").get("minValues", {})
    return int(least.get("as_of_version", -1))


def _drop_checkpoints(log: Path, torn: _Entry | None) -> None:
    """Move aside the log's checkpoints that are damaged or contain the first torn entry.

    If there are any, also remove the file `_last_checkpoint`, which names the newest checkpoint.
    """
    gone = []
    for path in log.iterdir():
        if path.name.endswith(".parquet") and (found := re.match(r"(\d{20})\.checkpoint", path.name)):
            is_later = torn is not None and int(found[1]) >= torn.version
            if is_later or _problem_of_file(path):
                gone.append(path)
    for path in gone:
        logger.warning(
            "table %(table)s: log checkpoint %(file)s is damaged or includes a torn log entry; it was moved aside",
            LogFields(table=log.parent.name, file=path.name),
        )
        _move_aside(path)
    if gone:
        (log / _LAST_CHECKPOINT).unlink(missing_ok=True)
        sync_paths([log])


def _move_aside(path: Path) -> None:
    path.replace(path.with_name(path.name + _TORN))


def _report(table: str, torn: _Entry, gone: Sequence[_Entry]) -> None:
    batches = ", ".join(batch for entry in gone for batch in entry.batches)
    logger.warning(
        "table %(table)s: version %(lost_version)d is lost, probably by a power loss: %(error)s. The table continues "
        "from version %(version)d. %(count)d log entries were renamed to *.torn%(detail)s",
        LogFields(
            table=table,
            lost_version=torn.version,
            error=torn.problem,
            version=torn.version - 1,
            count=len(gone),
            detail=f". They contained {batches}" if batches else "",
        ),
    )
