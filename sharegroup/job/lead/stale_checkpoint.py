"""Rejects checkpoints that are behind the tables or ahead of them.

A query that continues from a checkpoint behind its tables would undo later changes. A query that continues from a
checkpoint ahead of its tables would use operator state whose commits the tables do not have.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sharegroup.config import JobConfig
from sharegroup.errors import ShareGroupError
from sharegroup.storage.writing.versioned_table import Info

#: A key in the info of a commit to a query's first table. Its value is {name of another table of the query: newest
#: batch that this table had at the time of the commit}.
COMMITTED = "committed"

SHUFFLE_PARTITIONS, OPERATOR_SHARDS = "shuffle.partitions", "operator.shards"
#: With this value of `shuffle.partitions`, the query keeps the number that its checkpoint has.
_ANY = 0


class StaleCheckpointError(ShareGroupError):
    """A query must not continue from its checkpoint, which lacks batches of the tables or depends on lost commits."""


class Checkpoint(NamedTuple):
    """A query's checkpoint before the query starts.

    Spark adds a batch to the checkpoint before the batch runs. The checkpoint therefore has at least as many batches as
    the tables, and more if batches without effects committed nothing.

    Attributes:
        newest_batch: the newest batch in the checkpoint; -1 if there is none.
        committed: by table, the newest batch of the query that the table had when the checkpoint was last used.
        pinned: the values of `shuffle.partitions` and `operator.shards` when the checkpoint was created, by key. They
            cannot change later, because they divide the operator's state. `pinned` is empty before the first batch.
    """

    path: str
    query_id: str
    newest_batch: int
    committed: Mapping[str, int] = MappingProxyType({})
    pinned: Mapping[str, int] = MappingProxyType({})

    def changed_settings(self, config: JobConfig) -> list[str]:
        """Return a text for each pinned number that differs from the config: the key and both numbers.

        A configured `shuffle.partitions` of 0 means that the pinned number is kept.

        If there is a difference, the query must not continue from the checkpoint. Spark would keep the pinned number of
        shuffle partitions. With another number of shards, a batch that was planned before would pass requests to shards
        that do not manage their share-partitions.
        """
        configured = {SHUFFLE_PARTITIONS: config.shuffle_partitions, OPERATOR_SHARDS: config.operator_shards}
        return [
            f"{key} ({number} in the checkpoint, {configured[key]} in the configuration)"
            for key, number in sorted(self.pinned.items())
            if configured[key] not in (number, _ANY)
        ]


def reject_stale_checkpoint(
    checkpoint: Checkpoint | None, last_info: Info | None, committed: int, last_leader_epoch: Callable[[str], int]
) -> None:
    """Raise StaleCheckpointError if a query must not continue from its checkpoint (None: it has no checkpoint).

    A checkpoint is stale in two cases:

    - The tables have batches of the query that the checkpoint lacks, because the checkpoint was restored from a backup.
      `committed` is the newest batch of the query in the tables.
    - A query with another id, that is, with another checkpoint, has written the tables after the last start of the
      query. `last_info` is the info of the newest commit. `last_leader_epoch` returns, for a query id, the leader epoch
      of that query's last start.
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
            f"the tables were last written by query {last_info['query_id']}, but the checkpoint {checkpoint.path} "
            f"belongs to query {checkpoint.query_id}: {ADVICE}"
        )


def reject_checkpoint_ahead(
    checkpoint: Checkpoint | None, committed: Callable[[str], int], beside: str | None = None
) -> None:
    """Raise StaleCheckpointError if the checkpoint depends on commits that its tables do not have.

    `committed` returns the newest batch that the checkpoint's query has committed to a table, by the table's name.
    `checkpoint` is None if the query has none.
    `beside` is the path of the other query's checkpoint. If it is given, the error says to remove that checkpoint too,
    because the other query has read these tables.
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
    """Raise StaleCheckpointError if the tables of the other query lost commits.

    The query of this checkpoint reads these tables, so the checkpoint may name versions that no longer exist. The other
    query's own checkpoint shows the loss too, unless that checkpoint was removed.

    `other_info` is the info of the newest commit to the first table of the other query. `newest_batch` returns the
    newest batch of a query in a table of the other query. `checkpoint` is None if there is none.
    """
    if checkpoint is None or other_info is None:
        return
    query_id = other_info["query_id"]
    for table, batch_id in other_info.get(COMMITTED, {}).items():
        found = newest_batch(query_id, table)
        if found < batch_id:
            raise StaleCheckpointError(
                f"table {table} has lost commits: it had batch {batch_id} of query {query_id}, but its newest batch is "
                f"now {found}. The checkpoint {checkpoint.path} may depend on the lost batches: {ADVICE}"
            )


_BACK = "the job recovers from the tables"  # `spark.job.supervisor` searches for this text
ADVICE = f"remove that checkpoint, and {_BACK}"
