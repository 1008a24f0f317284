"""Computation of the state of each share-partition from the records in the `share_group_state` table.

Records must be in commit order. The rules for each record are those of `share_group_offset`. To save time, the batches
of a share-partition are combined once at the end, not once per record. The result is the same, because batches below
the start offset are dropped and the start offset never decreases between two snapshots.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset, ShareGroupOffsetHeader
from sharegroup.core.share_coordinator.state_batch_combiner import Precedence, combine_batches
from sharegroup.types import SharePartitionKey, StateBatch

_NO_STATES: Mapping[SharePartitionKey, ShareGroupOffset] = MappingProxyType({})


def fold_records(
    records: Iterable[ShareGroupStateRecord],
    now_ms: int = 0,
    precedence: Precedence = Precedence.NEWEST,
    before: Mapping[SharePartitionKey, ShareGroupOffset] = _NO_STATES,
) -> dict[SharePartitionKey, ShareGroupOffset]:
    """Return the state of each share-partition after `records` (oldest first). Deleted share-partitions are left out.

    `before` has the states after earlier records. A share-partition without new records keeps its state. If batches
    overlap, `precedence` decides which of them is effective.

    A snapshot replaces the state, an update changes the fields that are not -1, and a tombstone deletes the state. A
    record with a lower snapshot epoch than the state is ignored. An update without a snapshot is also ignored, because
    it can only belong to a share-partition that was deleted since (KIP-932, DeleteShareGroupState). ACQUIRED batches
    keep their member and lock deadline. Records contain no time, so `last_snapshot_ms` is set to `now_ms` for a
    snapshot.
    """
    headers: dict[SharePartitionKey, ShareGroupOffsetHeader] = {key: state.header for key, state in before.items()}
    batches: dict[SharePartitionKey, list[StateBatch]] = {}
    for record in records:
        key = record.key
        header = headers.get(key)
        if record.kind is RecordKind.TOMBSTONE:
            headers.pop(key, None)
            batches.pop(key, None)
        elif header is None:
            if record.kind is RecordKind.SNAPSHOT:
                headers[key] = ShareGroupOffsetHeader.from_snapshot(record, now_ms)
                batches[key] = list(record.state_batches)
        elif not header.supersedes(record):
            headers[key] = header.apply_record(record, now_ms)
            if record.kind is RecordKind.SNAPSHOT:
                batches[key] = list(record.state_batches)
            else:
                if key not in batches:
                    batches[key] = list(before[key].state_batches)
                batches[key].extend(record.state_batches)
    return {
        key: ShareGroupOffset(header, combine_batches(batches[key], header.start_offset, precedence))
        if key in batches
        else before[key]
        for key, header in headers.items()
    }
