"""Compute the state transitions that an acknowledgement request causes (KIP-932, KIP-1222).

`acknowledge_rules.check_batches` has already checked the form of the request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from sharegroup.core.share_partition.in_flight import InFlight
from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.outcome import Outcome
from sharegroup.core.share_partition.record_state import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE
from sharegroup.core.share_partition.release import end_acquisition, iter_held, not_held_error
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.range_map import RangeMap, append_fused
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange, Cause, RecordState, Transition

#: The new record state for each acknowledge type, and the cause that is recorded for the transition.
REQUESTED: Final[dict[int, tuple[RecordState, Cause]]] = {
    AcknowledgeType.GAP: (ARCHIVED, Cause.GAP),
    AcknowledgeType.ACCEPT: (ACKNOWLEDGED, Cause.ACCEPT),
    AcknowledgeType.RELEASE: (AVAILABLE, Cause.RELEASE),
    AcknowledgeType.REJECT: (ARCHIVED, Cause.REJECT),
    AcknowledgeType.RENEW: (ACQUIRED, Cause.RENEW),
}


class AcknowledgementRejected(RequestError):
    """The error for an acknowledgement request that is rejected as a whole. The share-partition is unchanged.

    In Kafka, RENEW acknowledgements that precede the failing one stay in effect. `renewals` contains the transitions of
    these RENEWs. A caller that needs Kafka's behaviour passes `renewals` to `SharePartition.replay`.
    """

    def __init__(self, cause: RequestError, renewals: Outcome) -> None:
        self.renewals = renewals
        super().__init__(cause.code, cause.message)


class RenewalsDisabled(RequestError):
    """The error for a RENEW in a group that does not allow renewals. Its code is INVALID_RECORD_STATE, as in Kafka."""

    def __init__(self) -> None:
        message = "RENEW is not allowed: share.renew.acknowledge.enable is false for this group"
        super().__init__(ErrorCode.INVALID_RECORD_STATE, message)


def acknowledge_batch(
    window: InFlight,
    start_offset: int,
    member_id: str,
    batch: AcknowledgementBatch,
    ended: int,
    granted: RangeMap[int] | None,
    now_ms: int,
    config: SharePartitionConfig,
    transitions: list[Transition],
) -> int:
    """Append the transitions of one acknowledgement batch to `transitions`, and return the updated `ended`.

    - `start_offset`: offsets below this value are skipped.
    - `ended`: the highest offset that the request has acknowledged so far, apart from RENEWs.
    - `granted`: the delivery count that each offset had in the acknowledged delivery. If None, the counts are not
      checked.

    Raises RequestError (INVALID_RECORD_STATE) if `member_id` does not hold all of the records, if `granted` has another
    delivery count or none for a record, or if the batch contains an offset up to `ended`.
    """
    for run_first, last, acknowledge_type in _runs_of_types(batch):
        if last < start_offset:
            continue
        first = max(run_first, start_offset)
        if first <= ended:
            raise not_held_error(f"offset {first} is acknowledged twice")
        to_state, cause = REQUESTED[acknowledge_type]
        for held_first, held_last, record in iter_held(window, member_id, first, last):
            _check_granted(granted, held_first, held_last, record)
            if to_state is ACQUIRED:
                count, deadline = record.delivery_count, now_ms + config.record_lock_duration_ms
                transition = Transition(held_first, held_last, ACQUIRED, ACQUIRED, cause, member_id, count, deadline)
            else:
                transition = end_acquisition(held_first, held_last, record, to_state, cause, config)
            append_fused(transitions, transition)
        if to_state is not ACQUIRED:
            ended = last
    return ended


def delivery_counts_by_offset(grants: Sequence[AcquiredRange]) -> RangeMap[int] | None:
    """Return the delivery count of each offset in the acquired ranges `grants`, or None if `grants` is empty."""
    return RangeMap((grant.first_offset, grant.last_offset, grant.delivery_count) for grant in grants) or None


def _check_granted(granted: RangeMap[int] | None, first: int, last: int, record: InFlightRecord) -> None:
    """Raise RequestError unless `granted` has the delivery count of `record` for every offset of first..last.

    If `granted` is None, nothing is checked. Every acquisition raises the delivery count of a record, so a different
    count means that the record was acquired again.
    """
    if granted is None:
        return
    expected = first
    for granted_first, granted_last, delivery_count in granted.items(first, last):
        if granted_first == expected and delivery_count != record.delivery_count:
            message = (
                f"offsets {granted_first}..{granted_last} have delivery count {record.delivery_count}, "
                f"not {delivery_count}"
            )
            raise not_held_error(message)
        if granted_first != expected:
            break
        expected = granted_last + 1
    if expected <= last:
        raise not_held_error(f"offsets {expected}..{last} are not among the acquired ranges of the request")


def _runs_of_types(batch: AcknowledgementBatch) -> Iterator[tuple[int, int, int]]:
    """Yield (first offset, last offset, acknowledge type) for each run of offsets with the same type."""
    first, last, types = batch
    if len(types) == 1:
        yield first, last, types[0]
        return
    for acknowledge_type, run in groupby(types):
        length = sum(1 for _ in run)
        yield first, first + length - 1, acknowledge_type
        first += length
