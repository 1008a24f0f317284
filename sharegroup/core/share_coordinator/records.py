"""The durable record of a share-partition's state: a row of the `share_group_state` table.

The fields are those of ShareSnapshotValue and ShareUpdateValue (KIP-932, "Share coordinator records"). One class has
all three kinds, because they share a table, a key and an order, and the order of the rows matters.
"""

from enum import Enum
from typing import NamedTuple

from sharegroup.types import UNCHANGED, SharePartitionKey, StateBatch


class RecordKind(str, Enum):
    """The effect of a record on the state of its share-partition."""

    SNAPSHOT = "SNAPSHOT"
    """Replaces the state. Every field is set."""
    UPDATE = "UPDATE"
    """Changes the state of the snapshot with the same epoch. A field that did not change is -1."""
    TOMBSTONE = "TOMBSTONE"
    """Deletes the state and its fences (Kafka writes a null value under the snapshot's key)."""


class ShareGroupStateRecord(NamedTuple):
    """A durable record.

    `snapshot_epoch` counts the snapshots of a share-partition from 0; an update has the epoch of its snapshot.
    `delivery_complete_count` is the number of finished records at or above `start_offset`, -1 if unknown (KIP-1226).
    In an update, fields that did not change are -1 (`UNCHANGED`). `state_epoch` is always -1 there, because only an
    initialization changes it. `state_batches` are sorted, disjoint and not below the start offset.
    """

    kind: RecordKind
    key: SharePartitionKey
    snapshot_epoch: int = UNCHANGED
    state_epoch: int = UNCHANGED
    leader_epoch: int = UNCHANGED
    start_offset: int = UNCHANGED
    delivery_complete_count: int = UNCHANGED
    state_batches: tuple[StateBatch, ...] = ()


def tombstone_record(key: SharePartitionKey) -> ShareGroupStateRecord:
    """Return the record that deletes a share-partition's state (KIP-932, DeleteShareGroupState)."""
    return ShareGroupStateRecord(RecordKind.TOMBSTONE, key)
