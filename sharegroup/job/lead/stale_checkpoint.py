"""Rejects checkpoints that are behind the tables or ahead of them.

Continuing from one that is behind would undo later changes. Continuing from one that is ahead would use operator state
whose commits are not in the tables.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sharegroup.errors import ShareGroupError
from sharegroup.storage.writing.versioned_table import Info

#: The key in a commit's info of the newest batches that the query's other tables had at that time, by table.
COMMITTED = "committed"


class StaleCheckpointError(ShareGroupError):
    """The tables were written without this checkpoint, or have lost commits that it depends on."""


class Checkpoint(NamedTuple):
    """A query's checkpoint before the query starts: its path, and the newest batch that it has planned (-1 for none).

    Spark plans each batch there before it runs. The checkpoint therefore has at least as many batches as the tables,
    and more if batches without effects committed nothing. `committed` has, by table, the newest batches that were in
    the tables. `shuffle_partitions` is the number that the state is stored for; None before the first batch.
    """

    path: str
    query_id: str
    newest_batch: int
    shuffle_partitions: int | None = None
    committed: Mapping[str, int] = MappingProxyType({})

    def has_other_partitions(self, wanted: int) -> bool:
        """Return whether the state has another number of shuffle partitions than `wanted`; 0 accepts any number."""
        return wanted > 0 and self.shuffle_partitions not in (None, wanted)


def reject_stale_checkpoint(
    checkpoint: Checkpoint | None, last_info: Info | None, committed: int, last_leader_epoch: Callable[[str], int]
) -> None:
    """Raise StaleCheckpointError if the query must not continue from the checkpoint. None means no checkpoint.

    A checkpoint is stale if the tables have batches of its own query that it does not have (it was restored from a
    backup); `committed` is the newest one. It is also stale if another query has written after the last start of its
    own query: `last_info` names the last writer, `last_leader_epoch` returns the epoch of a query's last start.
    """
    if checkpoint is None:
        return
    if committed > checkpoint.newest_batch:
        raise StaleCheckpointError(
            f"the tables have batch {committed} of query {checkpoint.query_id}, but its checkpoint {checkpoint.path} "
            f"ends at batch {checkpoint.newest_batch}: {ADVICE}"
        )
    if checkpoint.newest_batch < 0 or last_info is None or last_info["query_id"] == checkpoint.query_id:
        return
    if last_leader_epoch(checkpoint.query_id) <= last_info["leader_epoch"]:
        raise StaleCheckpointError(
            f"the tables were last written by query {last_info['query_id']}, the checkpoint {checkpoint.path} belongs "
            f"to query {checkpoint.query_id}: {ADVICE}"
        )


def reject_checkpoint_ahead(
    checkpoint: Checkpoint | None, committed: Callable[[str], int], beside: str | None = None
) -> None:
    """Raise StaleCheckpointError if the checkpoint depends on commits that its tables do not have.

    `committed` returns the newest batch of the checkpoint's query in a table. None means no checkpoint. `beside` is the
    path of the other query's checkpoint, which has read these tables and must be removed too.
    """
    advice = f"remove that checkpoint and the other query's checkpoint {beside}, and {_BACK}" if beside else ADVICE
    if checkpoint is None:
        return
    for table, batch_id in checkpoint.committed.items():
        found = committed(table)
        if found < batch_id:
            raise StaleCheckpointError(
                f"table {table} has lost commits: the checkpoint {checkpoint.path} depends on batch {batch_id} of "
                f"query {checkpoint.query_id}, but the newest batch in the table is {found}: {advice}"
            )


def reject_lost_commits(
    checkpoint: Checkpoint | None, other_info: Info | None, newest_batch: Callable[[str, str], int]
) -> None:
    """Raise StaleCheckpointError if the other query's tables, which the checkpoint's query has read, lost commits.

    The other query's own checkpoint shows that too, unless it was removed. `other_info` is the info of the newest
    commit of the other query's first table; `newest_batch` returns the newest batch of a query in one of its tables.
    None means no checkpoint. The checkpoint may name versions of these tables that no longer exist.
    """
    if checkpoint is None or other_info is None:
        return
    query_id = other_info["query_id"]
    for table, batch_id in other_info.get(COMMITTED, {}).items():
        found = newest_batch(query_id, table)
        if found < batch_id:
            raise StaleCheckpointError(
                f"table {table} has lost commits: it had batch {batch_id} of query {query_id}, but its newest batch is "
                f"{found}, and the checkpoint {checkpoint.path} may depend on what was lost: {ADVICE}"
            )


_BACK = "the job recovers from the tables"  # `spark.job.supervisor` searches for this text
ADVICE = f"remove that checkpoint, and {_BACK}"
