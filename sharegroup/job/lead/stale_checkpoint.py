"""Checkpoints that do not fit the tables: they are behind, or ahead of them.

Going on from one that is behind would undo what was done since. Going on from one that is ahead would leave tables
without what the operator's state is built on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sharegroup.errors import ShareGroupError
from sharegroup.storage.writing.versioned_table import Info


class StaleCheckpointError(ShareGroupError):
    """The tables have moved on without this checkpoint, or have lost what it is built on."""


class Checkpoint(NamedTuple):
    """A query's checkpoint before the query starts: its folder, and the newest batch that it has planned, -1 for none.

    Spark plans each batch there before it runs it, so a checkpoint knows at least as many as the tables; it may know
    more, as a batch without effects commits nothing. `committed` are the newest batches that it knows to be in the
    tables, by table. It pins the number of `shuffle_partitions`, which its state is in; None where it has no batch.
    """

    path: str
    query_id: str
    newest_batch: int
    shuffle_partitions: int | None = None
    committed: Mapping[str, int] = MappingProxyType({})

    def has_other_partitions(self, wanted: int) -> bool:
        """Whether Spark would go on with another number of shuffle partitions than is wanted; 0: any will do."""
        return wanted > 0 and self.shuffle_partitions not in (None, wanted)


def refuse_stale_checkpoint(
    checkpoint: Checkpoint | None, last_info: Info | None, committed: int, last_leader_epoch: Callable[[str], int]
) -> None:
    """Raise StaleCheckpointError for one that must not be gone on from. None: there is no checkpoint.

    It is stale when the tables have batches of its own query that it does not know (it was restored from a backup):
    `committed` is the newest. And when another query has written after its own last start, which read the tables:
    `last_info` tells who wrote last, `last_leader_epoch` when a query of an id started last.
    """
    if checkpoint is None:
        return
    if committed > checkpoint.newest_batch:
        raise StaleCheckpointError(
            f"the tables have batch {committed} of query {checkpoint.query_id}, its checkpoint {checkpoint.path} ends "
            f"at batch {checkpoint.newest_batch}: {ADVICE}"
        )
    if checkpoint.newest_batch < 0 or last_info is None or last_info["query_id"] == checkpoint.query_id:
        return
    if last_leader_epoch(checkpoint.query_id) <= last_info["leader_epoch"]:
        raise StaleCheckpointError(
            f"the tables were last written by query {last_info['query_id']}, the checkpoint {checkpoint.path} belongs "
            f"to query {checkpoint.query_id}: {ADVICE}"
        )


def refuse_checkpoint_ahead(
    checkpoint: Checkpoint | None, committed: Callable[[str], int], beside: str | None = None
) -> None:
    """Raise StaleCheckpointError for a checkpoint that is built on commits that its tables do not have.

    `committed` gives the newest batch of the checkpoint's query in a table. None: there is no checkpoint. `beside` is
    the path of the other query's, which has read these tables and is no better.
    """
    advice = f"remove that checkpoint, and the checkpoint {beside} beside it; {_BACK}" if beside else ADVICE
    if checkpoint is None:
        return
    for table, batch_id in checkpoint.committed.items():
        found = committed(table)
        if found < batch_id:
            raise StaleCheckpointError(
                f"table {table} has lost commits: the checkpoint {checkpoint.path} is built on batch {batch_id} of "
                f"query {checkpoint.query_id}, and the newest one in the table is {found}: {advice}"
            )


_BACK = "the job comes back from the tables"
ADVICE = f"remove that checkpoint, and {_BACK}"
