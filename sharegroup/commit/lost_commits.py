"""Brings the tables of a query to the same batch, if some of them have lost commits.

With `tables.local.sync` a power loss takes nothing that a later step builds on. Without it, with a disk that does not
keep what it says it has, or when tables are restored from backups of different times, each table may have lost any
number of its newest commits. The first table decides, because its commits have the positions of the requests and the
outboxes:

    another table is ahead     its rows of batches that the first table does not have are taken back: an older version
                               is restored. The requests of these batches are read again
    another table is behind    its rows come from the outboxes of the first table's commits, as far as these are kept
    the first table is behind  nothing shows it, and nothing needs to be done: all tables are at its batch

A checkpoint that is ahead of its tables is refused (`stale_checkpoint`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sharegroup.commit.late_rows import OwedBatch
from sharegroup.commit.table_writer import TableWriter
from sharegroup.commit.versioned_table import Info
from sharegroup.packed_json import unpack_json

logger = logging.getLogger(__name__)

#: The transaction id of rows that are put into a table again; its version is the leader epoch.
RECOVERED_APP_ID = "sharegroup.recovered"
#: The key in a commit's info of the newest batches that the other tables had by then, by table.
COMMITTED = "committed"
#: How many commits of the first table are searched for outboxes; as many stay on a local disk by default.
_COMMITS_TO_SEARCH = 1_000


class LostBatches(NamedTuple):
    """What one table lacks: the rows of batches of `query_id` after `known`. `has_gone_back`: it was ahead."""

    query_id: str
    known: int
    has_gone_back: bool


def take_back(
    first: TableWriter, others: Sequence[TableWriter], epochs: Mapping[str, int], leader_epoch: int
) -> dict[str, LostBatches]:
    """Take back what other tables have and the first one has not; by table, what it lacks then.

    `epochs` are the leader epochs of all tables before this leader's, which leads them by now.
    """
    info = first.last_info or {}
    query_id = info.get("query_id", "")
    newest, lost = first.committed(query_id), {}
    for writer in others:
        name = writer.spec.name
        if writer.committed(query_id) > newest or epochs[name] > epochs[first.spec.name]:
            known = writer.go_back(query_id, newest, epochs[first.spec.name] + 1, leader_epoch)
            lost[name] = LostBatches(query_id, known, True)
            logger.warning("table %s: %s has lost commits, so it goes back to batch %d", name, first.spec.name, newest)
        elif info.get(COMMITTED, {}).get(name, -1) > (known := writer.committed(query_id)):
            lost[name] = LostBatches(query_id, known, False)
    return lost


def lost_rows(first: TableWriter, table: str, lost: LostBatches) -> list[OwedBatch]:
    """The rows that a table lacks, by batch, from the outboxes of the first table."""
    found = {batch.batch_id: batch for batch in _outbox_rows(first, table, lost) if batch.rows}
    batches = [found[batch_id] for batch_id in sorted(found)]
    logger.warning(
        "table %s: the rows of %d batches after batch %d come from outboxes", table, len(batches), lost.known
    )
    return batches


def _outbox_rows(first: TableWriter, table: str, lost: LostBatches) -> Iterator[OwedBatch]:
    for info in first.infos(_COMMITS_TO_SEARCH):
        if info["query_id"] != lost.query_id or info["batch_id"] <= lost.known:
            return
        outbox = _outbox(info)
        yield OwedBatch(info["batch_id"], info["now_ms"], outbox["tables"].get(table, ()))
        for late in outbox.get("late", {}).get(table, ()):
            if OwedBatch(*late).batch_id > lost.known:
                yield OwedBatch(*late)


def _outbox(info: Info) -> dict[str, Any]:
    outbox: dict[str, Any] = unpack_json(info["outbox"]) if info.get("outbox") else {"tables": {}}
    return outbox
