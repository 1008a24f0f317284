"""The request check of acknowledgement batches, and what each acknowledge type asks for (KIP-932, KIP-1222)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.share_partition.record_state import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, Cause, RecordState

#: The state that an acknowledge type asks for, and the cause it is recorded with.
REQUESTED: Final[dict[int, tuple[RecordState, Cause]]] = {
    AcknowledgeType.GAP: (ARCHIVED, Cause.GAP),
    AcknowledgeType.ACCEPT: (ACKNOWLEDGED, Cause.ACCEPT),
    AcknowledgeType.RELEASE: (AVAILABLE, Cause.RELEASE),
    AcknowledgeType.REJECT: (ARCHIVED, Cause.REJECT),
    AcknowledgeType.RENEW: (ACQUIRED, Cause.RENEW),
}


def check_batches(batches: Sequence[AcknowledgementBatch], is_renew_ack: bool) -> None:
    """Check what can be checked without the state of the records.

    `is_renew_ack` is the IsRenewAck flag of the request, without which RENEW is an unknown type. Raises RequestError
    (INVALID_REQUEST) for a range that is empty or begins before the last one ended (equal offsets pass here, and fail
    on the record's state later), and for acknowledge types that are neither one nor one for each offset, or unknown.
    """
    previous_last = -1
    for first, last, types in batches:
        if first > last:
            raise _invalid(f"first offset {first} is after last offset {last}")
        if first < previous_last:
            raise _invalid(f"{first}..{last} begins before the end of the batch in front of it")
        if len(types) != 1 and len(types) != last - first + 1:
            raise _invalid(f"{len(types)} acknowledge types for the {last - first + 1} offsets of {first}..{last}")
        for acknowledge_type in set(types):
            if acknowledge_type not in REQUESTED or (acknowledge_type == AcknowledgeType.RENEW and not is_renew_ack):
                raise _invalid(f"unknown acknowledge type {acknowledge_type}")
        previous_last = last


def asks_for_renewal(batches: Sequence[AcknowledgementBatch]) -> bool:
    """Whether any offset is to be renewed."""
    return any(AcknowledgeType.RENEW in batch.acknowledge_types for batch in batches)


def runs_of_types(batch: AcknowledgementBatch) -> Iterator[tuple[int, int, int]]:
    """The batch as (first offset, last offset, type), neighbours of equal type joined."""
    first, last, types = batch
    if len(types) == 1:
        yield first, last, types[0]
        return
    for acknowledge_type, run in groupby(types):
        length = sum(1 for _ in run)
        yield first, first + length - 1, acknowledge_type
        first += length


def _invalid(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, message)
