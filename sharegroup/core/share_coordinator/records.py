"""The durable record of a share-partition's state: a row of the `share_group_state` table.

The fields are those of ShareSnapshotValue and ShareUpdateValue (KIP-932, "Share coordinator records"). One class holds
all three kinds because they share a table, a key and an order: the order of the rows is part of their meaning.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from sharegroup.types import UNCHANGED, SharePartitionKey, StateBatch


class RecordKind(str, Enum):
    """What a record does to the state of its share-partition."""

    SNAPSHOT = "SNAPSHOT"
    """Replaces the state; every field is set."""
    UPDATE = "UPDATE"
    """Changes the state of the snapshot with the same epoch; a field of -1 did not change."""
    TOMBSTONE = "TOMBSTONE"
    """Forgets the share-partition, fences included (Kafka writes a null value under the snapshot's key)."""


class ShareGroupStateRecord(NamedTuple):
    """One durable record.

    `snapshot_epoch` counts the snapshots of a share-partition from 0; an update has the epoch of the one it amends.
    `delivery_complete_count` is the number of finished records at or above `start_offset`, -1 where unknown (KIP-1226).
    In an update, -1 (`UNCHANGED`) stands for what did not change; `state_epoch` is always -1 there, as only an
    initialisation changes it. `state_batches` are sorted, disjoint and not below the start offset.
    """

    kind: RecordKind
    key: SharePartitionKey
    snapshot_epoch: int = UNCHANGED
    state_epoch: int = UNCHANGED
    leader_epoch: int = UNCHANGED
    start_offset: int = UNCHANGED
    delivery_complete_count: int = UNCHANGED
    state_batches: tuple[StateBatch, ...] = ()


def tombstone(key: SharePartitionKey) -> ShareGroupStateRecord:
    """The record that forgets a share-partition (KIP-932, DeleteShareGroupState)."""
    return ShareGroupStateRecord(RecordKind.TOMBSTONE, key)
