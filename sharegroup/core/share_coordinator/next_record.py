"""Computation of the next durable record of a share-partition: an update or a snapshot, and its values.

Theory of operation
-------------------
The functions take only the *header* of the state, which is the state without its batches. Their caller, the
share-partition operator, has the batches as its in-flight window. For a snapshot, `next_record` calls its argument
`merged_batches`, which reads the batches from the window. An update does not need them.

The first record of a state is a snapshot. It is followed by at most `updates_per_snapshot` updates, then by a snapshot
with the next epoch, and so on. If `updates_per_snapshot` is 0, every record is a snapshot. In an update, a header field
that did not change is -1.

The new values depend on the written values and on the recorded values, which are those of the header. The rules are
those of Kafka 4.4:

    written start offset    new start offset    new delivery complete count
    above the recorded      the written         the written
    equal                   the same            the higher of both
    below, or -1            the recorded        the recorded

Higher epochs in a write are accepted, but not recorded here. Only an initialization sets the state epoch. The writer of
the table records the leader epoch and uses it for fencing.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffsetHeader
from sharegroup.core.share_coordinator.state_batch_combiner import Precedence, combine_batches
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.types import UNCHANGED, SharePartitionKey, StateBatch

#: The leader epoch that an initialization writes, because no leader has read the state yet.
NO_LEADER_EPOCH = 0


class StateWrite(NamedTuple):
    """The values that a leader writes (KIP-932, WriteShareGroupState).

    `start_offset` and `delivery_complete_count` are the leader's current values, whether they changed or not, or -1 if
    they are unknown. `state_batches` are the changed batches. If two batches overlap, the older one comes first.
    """

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int = UNCHANGED
    delivery_complete_count: int = UNCHANGED
    state_batches: Sequence[StateBatch] = ()


class _Values(NamedTuple):
    """The header fields that a write can change, with their new values."""

    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


def initial_record(
    key: SharePartitionKey, header: ShareGroupOffsetHeader | None, state_epoch: int, start_offset: int
) -> ShareGroupStateRecord:
    """Return the snapshot that initializes a share-partition (InitializeShareGroupState).

    The snapshot replaces any existing state. `header` is the header of the existing state, or None if there is none.
    Raises RequestError: INVALID_REQUEST for a negative state epoch, FENCED_STATE_EPOCH for a state epoch below the
    recorded one. A state epoch equal to the recorded one is accepted.
    """
    _check_not_negative("state epoch", state_epoch)
    if header is not None:
        _check_state_epoch(header, state_epoch)
    return ShareGroupStateRecord(
        RecordKind.SNAPSHOT,
        key,
        0 if header is None else header.snapshot_epoch + 1,
        state_epoch,
        NO_LEADER_EPOCH,
        start_offset,
        UNCHANGED if start_offset == UNCHANGED else 0,
    )


def next_record(
    header: ShareGroupOffsetHeader,
    write: StateWrite,
    updates_per_snapshot: int,
    merged_batches: Callable[[], Sequence[StateBatch]],
    precedence: Precedence = Precedence.NEWEST,
) -> ShareGroupStateRecord:
    """Return the durable record of a write: an update or a snapshot (KIP-932, WriteShareGroupState).

    `merged_batches` is called only for a snapshot. It must return either all batches as they are after the write, or
    the previous batches followed by the written ones. If batches overlap, `precedence` decides which of them is
    effective. Offsets below the start offset are dropped.

    Raises RequestError: INVALID_REQUEST for a negative epoch, FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH for an epoch
    below the recorded one.
    """
    _check_not_negative("leader epoch", write.leader_epoch)
    _check_not_negative("state epoch", write.state_epoch)
    _check_leader_epoch(header, write.leader_epoch)
    _check_state_epoch(header, write.state_epoch)
    start_offset = max(write.start_offset, header.start_offset)
    values = _Values(header.leader_epoch, start_offset, _delivery_complete_count(header, write))
    if header.updates_since_snapshot < updates_per_snapshot:
        return _update(write.key, header, values, combine_batches(write.state_batches, start_offset, precedence))
    return _snapshot(write.key, header, values, combine_batches(merged_batches(), start_offset, precedence))


def _check_not_negative(name: str, epoch: int) -> None:
    """Raise RequestError (INVALID_REQUEST) for a negative epoch. Before Kafka 4.4, -1 was allowed and not compared."""
    if epoch < 0:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"the {name} must not be negative, but is {epoch}")


def _check_leader_epoch(header: ShareGroupOffsetHeader, leader_epoch: int) -> None:
    if leader_epoch < header.leader_epoch_fence:
        message = f"leader epoch {leader_epoch} is below the recorded leader epoch {header.leader_epoch_fence}"
        raise RequestError(ErrorCode.FENCED_LEADER_EPOCH, message)


def _check_state_epoch(header: ShareGroupOffsetHeader, state_epoch: int) -> None:
    if state_epoch < header.state_epoch:
        message = f"state epoch {state_epoch} is below the recorded state epoch {header.state_epoch}"
        raise RequestError(ErrorCode.FENCED_STATE_EPOCH, message)


def _delivery_complete_count(header: ShareGroupOffsetHeader, write: StateWrite) -> int:
    """Return the new delivery complete count by the table in the module docstring. A written -1 changes nothing."""
    if write.delivery_complete_count == UNCHANGED or write.start_offset < header.start_offset:
        return header.delivery_complete_count
    if write.start_offset == header.start_offset:
        return max(write.delivery_complete_count, header.delivery_complete_count)
    return write.delivery_complete_count


def _update(
    key: SharePartitionKey, header: ShareGroupOffsetHeader, values: _Values, batches: tuple[StateBatch, ...]
) -> ShareGroupStateRecord:
    recorded = _Values(header.leader_epoch, header.start_offset, header.delivery_complete_count)
    changed = _Values(*(UNCHANGED if new == old else new for new, old in zip(values, recorded, strict=True)))
    return ShareGroupStateRecord(RecordKind.UPDATE, key, header.snapshot_epoch, UNCHANGED, *changed, batches)


def _snapshot(
    key: SharePartitionKey, header: ShareGroupOffsetHeader, values: _Values, batches: tuple[StateBatch, ...]
) -> ShareGroupStateRecord:
    epoch = header.snapshot_epoch + 1
    return ShareGroupStateRecord(RecordKind.SNAPSHOT, key, epoch, header.state_epoch, *values, batches)
