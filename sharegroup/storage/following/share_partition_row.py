"""A row of `share_partitions`, as those see it who lead share-partitions."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sharegroup.types import SharePartitionKey


class SharePartitionRow(NamedTuple):
    """A row of the `share_partitions` table: to be led, or its state to be deleted.

    `auto_offset_reset` says where it starts if `start_offset` is -1; None otherwise.
    """

    key: SharePartitionKey
    initializing: bool
    state_epoch: int
    start_offset: int
    deleting: bool = False
    auto_offset_reset: str | None = None


class SharePartitionChanges(NamedTuple):
    """From one version of the table to another: the rows that are new or other, and whose rows are there no more."""

    listed: Collection[SharePartitionRow]
    left: Collection[SharePartitionKey]
