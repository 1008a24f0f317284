"""What each of our commits to a Delta table carries, and how it is told again from the table's log.

With `max_commit_retries=0` a commit is a compare-and-set on the table's version. Transaction ids do not keep writers
apart: delta-rs commits the appends of two writers with different ids, and does not skip a repeated one. Upkeep's
commits go over the appends of others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltalake import CommitProperties, PostCommitHookProperties, Transaction

from sharegroup.storage.writing.versioned_table import Commit, Info, Stamp

#: Delta's own work after a commit is left to upkeep.
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
#: Key of this project's entry in a commit's info: the batch's outbox and positions (see `commit_steps`).
_INFO_KEY = "sharegroup"
#: Key of a writer's own id in the info of each of its commits.
_WRITER_KEY = "sharegroup.writer"
#: Key that upkeep's commits have: they change no row that anybody needs.
_UPKEEP_KEY = "sharegroup.upkeep"
#: How many appends a commit of upkeep may meet and go over.
_UPKEEP_RETRIES = 50
#: The same by its operation, for commits of other tools: rows in other files, files gone that no version needs.
_REARRANGING = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END"})


def commit_properties(stamp: Stamp) -> CommitProperties:
    """A writer's; the newest info rides on every commit, so that the newest commit always has it."""
    transactions = [Transaction(stamp.app_id, stamp.version)] if stamp.app_id is not None else []
    metadata = {_WRITER_KEY: stamp.writer, **info_metadata(stamp.info)}
    if stamp.is_upkeep:
        return CommitProperties(custom_metadata=metadata | {_UPKEEP_KEY: "true"}, max_commit_retries=_UPKEEP_RETRIES)
    return CommitProperties(custom_metadata=metadata, app_transactions=transactions, max_commit_retries=0)


def info_metadata(info: Info | None) -> dict[str, str]:
    """The custom metadata of a commit that carries this info."""
    return {_INFO_KEY: json.dumps(info, separators=(",", ":"))} if info else {}


def info_of(entry: Mapping[str, Any]) -> Info | None:
    """The info of an entry of `DeltaTable.history`."""
    if _INFO_KEY not in entry:
        return None
    info: Info = json.loads(entry[_INFO_KEY])
    return info


def is_batch(entry: Mapping[str, Any]) -> bool:
    """Whether a commit's info, as the log has it, is that of a writer's commit, which always has a transaction."""
    return _WRITER_KEY in entry and _UPKEEP_KEY not in entry and entry.get("operation") not in _REARRANGING


def commit_of(entry: Mapping[str, Any]) -> Commit:
    """An entry of `DeltaTable.history`, as the fence looks at it."""
    rearranges = _UPKEEP_KEY in entry or entry.get("operation") in _REARRANGING
    return Commit(entry.get(_WRITER_KEY), rearranges, info_of(entry))
