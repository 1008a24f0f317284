"""`delivery_log` as of the newest commit of `share_group_state`: its rows come a moment after the answers."""

from __future__ import annotations

import time
from pathlib import Path

from deltalake import DeltaTable

from sharegroup.protocol.json_text import unpack_json
from sharegroup.storage.schemas import DELIVERY_LOG, SHARE_GROUP_STATE, table_path
from sharegroup.storage.writing.delta_commit import info_of

_POLL_S = 0.02
_COMMITS_TO_SEARCH = 50


def whole_delivery_log(tables_path: str | Path, timeout_s: float = 60.0) -> DeltaTable:
    """The table when it has the rows of all batches up to now. Raises TimeoutError: nobody writes them."""
    commits = DeltaTable(table_path(str(tables_path), SHARE_GROUP_STATE)).history(_COMMITS_TO_SEARCH)
    info = next((info for info in map(info_of, commits) if info is not None), None)
    log = DeltaTable(table_path(str(tables_path), DELIVERY_LOG))
    if info is None:
        return log
    outbox = unpack_json(info["outbox"])
    owed = [batch_id for batch_id, *_ in outbox.get("late", {}).get(DELIVERY_LOG.name, ())]
    if outbox["tables"].get(DELIVERY_LOG.name):
        owed.append(info["batch_id"])
    deadline = time.monotonic() + timeout_s
    while owed and (log.transaction_version(info["query_id"]) or 0) < owed[-1]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"delivery_log lacks batch {owed[-1]} after {timeout_s:.0f} s")
        time.sleep(_POLL_S)  # polls the table
        log.update_incremental()
    return log
