"""The offsets of a group's share-partitions, as DescribeShareGroupOffsets reports them (KIP-932, KIP-1226)."""

from collections.abc import Collection
from typing import NamedTuple

from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.storage.reading.groups import SharePartitionDescription, read_share_partitions
from sharegroup.storage.reading.state_table import read_current_states
from sharegroup.storage.rows import DeltaTables, StorageOptions
from sharegroup.types import UNCHANGED, SharePartitionKey


class SharePartitionOffset(NamedTuple):
    """The offsets and epochs of a share-partition. A value that is not known is -1.

    `leader_epoch` is the epoch of the job that wrote the newest record of the state. `delivery_complete_count` is the
    number of finished records at or above the start offset. If it and `start_offset` are known, the lag is the log
    end offset minus `start_offset` minus `delivery_complete_count`.
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
    """Return {group id: offsets, ordered by topic and partition}. Groups without offsets are left out.

    Each table is read once. Raises TableUnavailableError.
    """
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
    """Return a share-partition's offsets from its row in `share_partitions` and its state (None: it has none).

    If the state has an earlier state epoch than the row, the start offset was altered after the state was written. In
    this case, or without a state, the start offset of the row is returned. No record at or above it is finished, so the
    lag is known immediately (KAFKA-20034).
    """
    where = row.topic, row.topic_id, row.partition
    if state is None or state.header.state_epoch < row.state_epoch:
        finished = UNCHANGED if row.start_offset == UNCHANGED else 0
        return SharePartitionOffset(*where, row.start_offset, UNCHANGED, finished, row.state_epoch)
    header = state.header
    return SharePartitionOffset(
        *where, header.start_offset, header.leader_epoch, header.delivery_complete_count, header.state_epoch
    )
