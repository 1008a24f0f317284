"""What can be told of a request's acknowledgements without knowing the records (KIP-932; RENEW: KIP-1222). PURE.

The gateway checks the batches, and the job checks them again: so the gateway spares the job the requests that it would
refuse, and the answers that the gateway gives early are ones that the job would give.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.types import AcknowledgementBatch, AcknowledgeType

_TYPES = frozenset(AcknowledgeType)


def check_batches(batches: Sequence[AcknowledgementBatch], is_renew_ack: bool) -> None:
    """Check the acknowledgement batches of one share-partition; the error is that partition's alone.

    Raises RequestError (INVALID_REQUEST) for a range that is empty or begins before the last one ended (equal offsets
    pass here, and fail on the record's state), and for acknowledge types that are neither one nor one for each offset,
    or unknown, or RENEW without the request's IsRenewAck (`is_renew_ack`).
    """
    previous_last = -1
    for first, last, types in batches:
        if first > last:
            raise _invalid(f"first offset {first} is after last offset {last}")
        if first < previous_last:
            raise _invalid(f"{first}..{last} begins before the end of the batch in front of it")
        if len(types) != 1 and len(types) != last - first + 1:
            raise _invalid(f"{len(types)} acknowledge types for the {last - first + 1} offsets of {first}..{last}")
        unknown = set(types) - _TYPES
        if unknown:
            raise _invalid(f"unknown acknowledge type {min(unknown)}")
        if AcknowledgeType.RENEW in types and not is_renew_ack:
            raise _invalid("RENEW in a request without IsRenewAck")
        previous_last = last


def check_renewing_fetch(
    is_renew_ack: bool, max_wait_ms: int, min_bytes: int, max_bytes: int, max_records: int
) -> None:
    """Check that a ShareFetch with IsRenewAck asks for no records; the error is the whole request's.

    Raises RequestError (INVALID_REQUEST).
    """
    if is_renew_ack and (max_wait_ms > 0 or min_bytes > 0 or max_bytes > 0 or max_records > 0):
        raise _invalid("a fetch with IsRenewAck must have MaxWaitMs, MinBytes, MaxBytes and MaxRecords of 0")


def asks_for_renewal(batches: Sequence[AcknowledgementBatch]) -> bool:
    """Whether any offset is to be renewed."""
    return any(AcknowledgeType.RENEW in batch.acknowledge_types for batch in batches)


def _invalid(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, message)
