"""Rows of the table `share_partitions`, in the form that the source of the share_partition query needs."""

from collections.abc import Collection
from typing import NamedTuple

from sharegroup.types import SharePartitionKey


class SharePartitionRow(NamedTuple):
    """A row of `share_partitions`: a share-partition to manage, or one whose state must be deleted.

    `start_offset` is -1 if the share-partition has none yet. In that case, `auto_offset_reset` is the strategy that was
    configured when the row was written. Otherwise, `auto_offset_reset` is None.
    """

    key: SharePartitionKey
    initializing: bool
    state_epoch: int
    start_offset: int
    deleting: bool = False
    auto_offset_reset: str | None = None


class SharePartitionChanges(NamedTuple):
    """The difference between two versions of the table `share_partitions`.

    `listed` are the new and changed rows. `removed` are the keys of the removed rows.
    """

    listed: Collection[SharePartitionRow]
    removed: Collection[SharePartitionKey]
