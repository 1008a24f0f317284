"""The durable record of a share-partition's state: a row of the `share_group_state` table.

The fields are those of ShareSnapshotValue and ShareUpdateValue (KIP-932, "Share coordinator records"). One class is
used for all three kinds of records, because they are rows of one table with one key, and their order matters.
"""

from enum import Enum
from typing import NamedTuple

from sharegroup.types import UNCHANGED, SharePartitionKey, StateBatch


class RecordKind(str, Enum):
    """The effect of a record on the state of its share-partition."""

    SNAPSHOT = "SNAPSHOT"
    """Replaces the state. Every field is set."""
    UPDATE = "UPDATE"
    """Changes the state that began with the snapshot of the same epoch. A field that did not change is -1."""
    TOMBSTONE = "TOMBSTONE"
    """Deletes the state, including the epochs that fence writers (Kafka writes a null value for the snapshot's key)."""


class ShareGroupStateRecord(NamedTuple):
    """A durable record of a share-partition's state. In an update, fields that did not change are -1 (`UNCHANGED`).

    Attributes:
        kind: Snapshot, update or tombstone.
        key: The share-partition.
        snapshot_epoch: Counts the snapshots of the share-partition from 0. An update has the epoch of its snapshot.
        state_epoch: The group epoch at which the share-partition was initialized. Always -1 in an update, because only
            an initialization changes it.
        leader_epoch: The epoch of the leader that wrote the record.
        start_offset: The first offset that is not finished.
        delivery_complete_count: The number of finished records at or above `start_offset`, -1 if unknown (KIP-1226).
        state_batches: The states of records in flight: sorted, disjoint, and not below the start offset.
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
