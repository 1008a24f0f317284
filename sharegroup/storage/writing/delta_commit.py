"""The metadata in each of this project's commits to a Delta table, and how it is read back from the table's log.

With `max_commit_retries=0`, a commit is a compare-and-set on the table's version. Delta's transaction ids alone would
not stop a second writer, because delta-rs commits the appends of two writers if their ids differ. They would not stop a
repeated append either, because delta-rs does not skip it. Commits of upkeep are retried if another writer has appended
rows first.
"""

import json
from collections.abc import Mapping
from typing import Any

from deltalake import CommitProperties, PostCommitHookProperties, Transaction

from sharegroup.storage.writing.versioned_table import Commit, Info, Stamp

#: Switches off what delta-rs does after a commit (checkpoints, cleaning of the log), because upkeep does it.
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
#: The key of this project's entry (`Info`) in the metadata of a commit.
_INFO_KEY = "sharegroup"
#: The key of the writer's id in the info of each of its commits.
_WRITER_KEY = "sharegroup.writer"
#: The key that marks commits of upkeep, which change no row that is needed.
_UPKEEP_KEY = "sharegroup.upkeep"
#: How often delta-rs retries a commit of upkeep that conflicts with appends.
_UPKEEP_RETRIES = 50
#: Operations of other tools that change no row that is needed: they move rows to other files, or remove unused files.
_REARRANGING = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END"})


def commit_properties(stamp: Stamp) -> CommitProperties:
    """Return the properties of a commit with this stamp.

    Every commit repeats the `Info` of the newest micro-batch, so the newest commit always contains it.
    """
    transactions = [Transaction(stamp.app_id, stamp.version)] if stamp.app_id is not None else []
    metadata = {_WRITER_KEY: stamp.writer, **info_metadata(stamp.info)}
    if stamp.is_upkeep:
        return CommitProperties(custom_metadata=metadata | {_UPKEEP_KEY: "true"}, max_commit_retries=_UPKEEP_RETRIES)
    return CommitProperties(custom_metadata=metadata, app_transactions=transactions, max_commit_retries=0)


def info_metadata(info: Info | None) -> dict[str, str]:
    return {_INFO_KEY: json.dumps(info, separators=(",", ":"))} if info else {}


def info_of(entry: Mapping[str, Any]) -> Info | None:
    """Return the info of an entry of `DeltaTable.history`; None if the entry has no info."""
    if _INFO_KEY not in entry:
        return None
    info: Info = json.loads(entry[_INFO_KEY])
    return info


def is_batch(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry of `DeltaTable.history` is a commit of a `TableWriter`, and not upkeep.

    Such a commit always has a transaction id.
    """
    return _WRITER_KEY in entry and _UPKEEP_KEY not in entry and entry.get("operation") not in _REARRANGING


def commit_of(entry: Mapping[str, Any]) -> Commit:
    """Convert an entry of `DeltaTable.history` to a `Commit`."""
    rearranges = _UPKEEP_KEY in entry or entry.get("operation") in _REARRANGING
    return Commit(entry.get(_WRITER_KEY), rearranges, info_of(entry))
