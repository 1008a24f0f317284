"""Brings the tables of a query to the same batch if some of them have lost commits.

With `tables.local.sync`, a power loss removes nothing that a later step depends on. In three cases, however, a table
may have lost any number of its newest commits: the setting is off, the disk loses acknowledged writes, or the tables
were restored from backups of different times. The first table of the query decides, because its commits contain the
positions of the requests and the outboxes:

    another table is ahead     An older version is restored, which removes the rows of batches that the first table does
                               not have. The requests of these batches are read again.
    another table is behind    Its rows are restored from the outboxes of the first table's commits, if these commits
                               are still in the log.
    all lost the same batches  This is not detected and needs no action, because all tables are at the same batch.

A checkpoint that is ahead of its tables is rejected (`stale_checkpoint`).
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sharegroup.job.commit.deferred_rows import DeferredBatch
from sharegroup.job.lead.stale_checkpoint import COMMITTED
from sharegroup.log_fields import LogFields
from sharegroup.protocol.json_text import unpack_json
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import Info

logger = logging.getLogger(__name__)

#: The Delta transaction id of restored rows. The transaction version is the leader epoch.
RECOVERED_APP_ID = "sharegroup.recovered"
#: The maximum number of the first table's commits that are searched for outboxes. A local disk keeps as many by
#: default.
_COMMITS_TO_SEARCH = 1_000


class LostBatches(NamedTuple):
    """The batches whose rows one table lacks.

    Attributes:
        query_id: the id of the streaming query that made the first table's newest batch.
        known: the newest batch of this query that the table has. The table may lack all later ones.
        was_rolled_back: whether the table was ahead of the first table and was rolled back. If so, it still has the
            transaction ids of later batches.
    """

    query_id: str
    known: int
    was_rolled_back: bool


class LeaderBatch(NamedTuple):
    """The rows of a batch, and the epoch of the leader that committed it."""

    leader_epoch: int
    batch: DeferredBatch


def roll_back_tables(
    first: TableWriter, others: Sequence[TableWriter], epochs: Mapping[str, int], leader_epoch: int
) -> dict[str, LostBatches]:
    """Roll back the tables that are ahead of the first one. Return, by table, the batches that a table may lack.

    A table may lack batches because it was rolled back, or because it is behind the first one.

    `leader_epoch` is the epoch of the new leader. `epochs` has, by table, the epoch of the previous leader.
    """
    info = first.last_info or {}
    query_id, first_epoch = info.get("query_id", ""), epochs[first.spec.name]
    newest, lost = first.newest_batch(query_id), {}
    for writer in others:
        name, known = writer.spec.name, writer.newest_batch(query_id)
        if known > newest or epochs[name] > first_epoch:
            known = writer.roll_back(query_id, newest, first_epoch + 1, leader_epoch)
            lost[name] = LostBatches(query_id, known, True)
            logger.warning(
                "rolled back table %(table)s to batch %(batch)d, because %(first_table)s has lost the commits after it",
                LogFields(table=name, first_table=first.spec.name, batch=newest),
            )  # fmt: skip
        elif known < info.get(COMMITTED, {}).get(name, -1) or epochs[name] < first_epoch:
            lost[name] = LostBatches(query_id, known, False)
    return lost


def read_lost_rows(first: TableWriter, writer: TableWriter, lost: LostBatches) -> list[LeaderBatch]:
    """Read the rows that a table lacks from the first table's outboxes. Return them by batch, oldest batch first."""
    found: dict[tuple[str, int], LeaderBatch] = {}
    for info in first.infos(_COMMITS_TO_SEARCH):
        query_id, outbox = info["query_id"], _outbox(info)
        known = lost.known if query_id == lost.query_id else writer.newest_batch(query_id)
        if info["batch_id"] <= known:
            break
        late = [DeferredBatch(*batch) for batch in reversed(outbox.get("late", {}).get(writer.spec.name, ()))]
        own = DeferredBatch(info["batch_id"], info["now_ms"], outbox["tables"].get(writer.spec.name, ()))
        for batch in (own, *late):
            if batch.batch_id > known and batch.rows:
                found.setdefault((query_id, batch.batch_id), LeaderBatch(info["leader_epoch"], batch))
    if found:
        logger.warning(
            "table %(table)s has lost commits; its rows of %(count)d batches are restored from outboxes",
            LogFields(table=writer.spec.name, count=len(found)),
        )
    return [*reversed(found.values())]


def _outbox(info: Info) -> dict[str, Any]:
    outbox: dict[str, Any] = unpack_json(info["outbox"]) if info.get("outbox") else {"tables": {}}
    return outbox
