"""Acknowledgements: the transitions that a checked request asks for (KIP-932; RENEW from KIP-1222)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from sharegroup.core.share_partition.in_flight import InFlight
from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.outcome import Outcome
from sharegroup.core.share_partition.record_state import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE
from sharegroup.core.share_partition.release import end_acquisition, held, not_held
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.range_map import RangeMap, append_fused
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange, Cause, RecordState, Transition

#: The state that an acknowledge type asks for, and the cause it is recorded with.
REQUESTED: Final[dict[int, tuple[RecordState, Cause]]] = {
    AcknowledgeType.GAP: (ARCHIVED, Cause.GAP),
    AcknowledgeType.ACCEPT: (ACKNOWLEDGED, Cause.ACCEPT),
    AcknowledgeType.RELEASE: (AVAILABLE, Cause.RELEASE),
    AcknowledgeType.REJECT: (ARCHIVED, Cause.REJECT),
    AcknowledgeType.RENEW: (ACQUIRED, Cause.RENEW),
}


class AcknowledgementRefused(RequestError):
    """The request is refused: nothing of it counts.

    `renewals` is the exception that Kafka makes: RENEWs that stood in front of what failed stay in force there. The
    caller may replay it, to do the same; the machine itself has changed nothing.
    """

    def __init__(self, cause: RequestError, renewals: Outcome) -> None:
        self.renewals = renewals
        super().__init__(cause.code, cause.message)


class RenewalsOff(RequestError):
    """The group allows no renewals: a refusal with Kafka's code for records that are not held, held or not."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.INVALID_RECORD_STATE, "renewing acquisition locks is switched off for this group")


def acknowledge_batch(
    window: InFlight,
    start_offset: int,
    member_id: str,
    batch: AcknowledgementBatch,
    settled: int,
    grants: RangeMap[int] | None,
    now_ms: int,
    config: SharePartitionConfig,
    transitions: list[Transition],
) -> int:
    """Append what one batch of a request does; offsets below `start_offset` are skipped.

    `settled` is the last offset that batches in front of this one have finished or released; returns the same for the
    next one. `grants` are the delivery counts that the batch answers, None for whatever the member holds. Raises
    RequestError (INVALID_RECORD_STATE) at a record that `member_id` does not hold (any more) by them.
    """
    for run_first, last, acknowledge_type in _runs_of_types(batch):
        if last < start_offset:
            continue
        first = max(run_first, start_offset)
        if first <= settled:
            raise not_held(f"offset {first} is acknowledged twice")
        to_state, cause = REQUESTED[acknowledge_type]
        for held_first, held_last, record in held(window, member_id, first, last):
            _check_granted(grants, held_first, held_last, record)
            if to_state is ACQUIRED:
                count, deadline = record.delivery_count, now_ms + config.record_lock_duration_ms
                transition = Transition(held_first, held_last, ACQUIRED, ACQUIRED, cause, member_id, count, deadline)
            else:
                transition = end_acquisition(held_first, held_last, record, to_state, cause, config)
            append_fused(transitions, transition)
        if to_state is not ACQUIRED:
            settled = last
    return settled


def grants_by_offset(grants: Sequence[AcquiredRange]) -> RangeMap[int] | None:
    """The delivery count of each offset that was granted; None for no grants at all."""
    return RangeMap((grant.first_offset, grant.last_offset, grant.delivery_count) for grant in grants) or None


def _check_granted(grants: RangeMap[int] | None, first: int, last: int, record: InFlightRecord) -> None:
    """Acquiring raises the count: a record with another one than it was granted with was granted again since."""
    if grants is None:
        return
    expected = first
    for granted_first, granted_last, delivery_count in grants.items(first, last):
        if granted_first == expected and delivery_count != record.delivery_count:
            message = f"{granted_first}..{granted_last} is in delivery {record.delivery_count}, not {delivery_count}"
            raise not_held(message)
        if granted_first != expected:
            break
        expected = granted_last + 1
    if expected <= last:
        raise not_held(f"{expected}..{last} is not among the grants that are answered")


def _runs_of_types(batch: AcknowledgementBatch) -> Iterator[tuple[int, int, int]]:
    """The batch as (first offset, last offset, type), neighbours of equal type joined."""
    first, last, types = batch
    if len(types) == 1:
        yield first, last, types[0]
        return
    for acknowledge_type, run in groupby(types):
        length = sum(1 for _ in run)
        yield first, first + length - 1, acknowledge_type
        first += length
