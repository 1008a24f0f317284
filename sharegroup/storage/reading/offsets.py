"""The offsets of a group's share-partitions, as DescribeShareGroupOffsets reports them (KIP-932, KIP-1226)."""

from collections.abc import Collection
from typing import NamedTuple

from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.storage.reading.groups import SharePartitionDescription, read_share_partitions
from sharegroup.storage.reading.state_table import read_current_states
from sharegroup.storage.rows import DeltaTables, StorageOptions
from sharegroup.types import UNCHANGED, SharePartitionKey


class SharePartitionOffset(NamedTuple):
    """A share-partition's offsets and epochs; -1 for values that are not known (yet).

    `leader_epoch` is that of the job that wrote the newest record of the state. `delivery_complete_count` is the number
    of finished records at or above the start offset. The lag is the log end offset - `start_offset` -
    `delivery_complete_count`, if both are known.
    """

    topic: str
    topic_id: str
    partition: int
    start_offset: int
    leader_epoch: int
    delivery_complete_count: int
    state_epoch: int


def read_share_group_offsets(
    tables: str | DeltaTables, group_id: str, storage_options: StorageOptions = None
) -> tuple[SharePartitionOffset, ...]:
    """Return a group's offsets, ordered by topic and partition; none for an unknown group.

    An altered offset is returned as soon as the alteration is durable, before the share-partition is reset. Raises
    TableUnavailableError.
    """
    return read_offsets_by_group(tables, [group_id], storage_options).get(group_id, ())


def read_offsets_by_group(
    tables: str | DeltaTables, group_ids: Collection[str], storage_options: StorageOptions = None
) -> dict[str, tuple[SharePartitionOffset, ...]]:
    """Return the offsets of several groups. Groups without offsets are left out. Each table is read once."""
    opened = DeltaTables.from_path(tables, storage_options)
    listed = read_share_partitions(opened, group_ids) if group_ids else {}
    states = read_current_states(opened, listed) if listed else {}
    return {
        group_id: tuple(share_partition_offset(row, states.get(_key(group_id, row))) for row in rows)
        for group_id, rows in listed.items()
    }


def _key(group_id: str, row: SharePartitionDescription) -> SharePartitionKey:
    return SharePartitionKey(group_id, row.topic, row.topic_id, row.partition)


def share_partition_offset(row: SharePartitionDescription, state: ShareGroupOffset | None) -> SharePartitionOffset:
    """Return a share-partition's offsets from its row and its state.

    A state of an earlier state epoch is ignored, because the offset was altered since. No record is finished at or
    above an altered start offset, so the lag is known immediately (KAFKA-20034).
    """
    where = row.topic, row.topic_id, row.partition
    if state is None or state.header.state_epoch < row.state_epoch:
        finished = UNCHANGED if row.start_offset == UNCHANGED else 0
        return SharePartitionOffset(*where, row.start_offset, UNCHANGED, finished, row.state_epoch)
    header = state.header
    return SharePartitionOffset(
        *where, header.start_offset, header.leader_epoch, header.delivery_complete_count, header.state_epoch
    )
