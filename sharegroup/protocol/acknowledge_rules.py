"""Checks of acknowledgements that do not need the state of the records (KIP-932; for RENEW, KIP-1222). No I/O.

Both the gateway and the job run these checks. The gateway can therefore reject an invalid request itself. It returns
the same error that the job would return.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, OffsetRange

_TYPES = frozenset(AcknowledgeType)

#: A batch with this tagged field releases records that the application has not used. Brokers skip this field.
IS_UNUSED_TAG = 10_000
#: The acknowledge types of a batch with `IS_UNUSED_TAG` after decoding. 256 is not an int8, so no client can send it.
UNUSED = (256,)


def check_batches(batches: Sequence[AcknowledgementBatch], is_renew_ack: bool) -> None:
    """Check the acknowledgement batches of one share-partition.

    Raises RequestError (INVALID_REQUEST) in these cases:
    - A range is empty, or begins before the last offset of the previous range. A range that begins exactly at this
      offset is not detected here; the share-partition state machine rejects it.
    - An acknowledge type is unknown, or the number of types is neither 1 nor the number of offsets.
    - A type is RENEW, but the request does not set IsRenewAck (`is_renew_ack`).

    The error applies only to this share-partition, and not to the whole request.
    """
    previous_last = -1
    for first, last, types in batches:
        if first > last:
            raise _invalid(f"first offset {first} is after last offset {last}")
        if first < previous_last:
            raise _invalid(f"{first}..{last} begins before the end of the previous batch")
        if len(types) != 1 and len(types) != last - first + 1:
            raise _invalid(f"{len(types)} acknowledge types do not fit the {last - first + 1} offsets {first}..{last}")
        unknown = set(types) - _TYPES
        if unknown:
            raise _invalid(f"there is no acknowledge type {min(unknown)}")
        if AcknowledgeType.RENEW in types and not is_renew_ack:
            raise _invalid("the acknowledge type RENEW is only allowed in a request with IsRenewAck")
        previous_last = last


def split_unused(
    batches: Sequence[AcknowledgementBatch],
) -> tuple[Sequence[AcknowledgementBatch], Sequence[AcknowledgementBatch]]:
    """Return (batches of unused records, all other batches). The batches of unused records get the type RELEASE.

    A client marks these batches (`UNUSED`) because the application has not used their records. The caller must return
    the records without counting their delivery, as if the member had never acquired them.
    """
    release = (int(AcknowledgeType.RELEASE),)
    unused = [batch._replace(acknowledge_types=release) for batch in batches if batch.acknowledge_types == UNUSED]
    return unused, [batch for batch in batches if batch.acknowledge_types != UNUSED] if unused else batches


def release_batches(ranges: Iterable[Sequence[Any]]) -> list[AcknowledgementBatch]:
    """Return a batch with the type RELEASE for each range.

    A range begins with its first and last offset. Any further fields of the range are ignored.
    """
    return [AcknowledgementBatch(first, last, (int(AcknowledgeType.RELEASE),)) for first, last, *_ in ranges]


def split_released(
    batches: Sequence[AcknowledgementBatch],
) -> tuple[list[OffsetRange], Sequence[AcknowledgementBatch]]:
    """Return (released offsets, acknowledgements of all other offsets), both in the order of `batches`."""
    if not any(AcknowledgeType.RELEASE in batch.acknowledge_types for batch in batches):
        return [], batches
    released: list[OffsetRange] = []
    others: list[AcknowledgementBatch] = []
    for first, last, types in batches:
        for _, group in groupby(types, key=AcknowledgeType.RELEASE.__eq__):
            run = tuple(group)
            run_last = last if len(types) == 1 else first + len(run) - 1
            if run[0] == AcknowledgeType.RELEASE:
                released.append(OffsetRange(first, run_last))
            else:
                others.append(AcknowledgementBatch(first, run_last, run))
            first = run_last + 1
    return released, others


def check_renewing_fetch(
    is_renew_ack: bool, max_wait_ms: int, min_bytes: int, max_bytes: int, max_records: int
) -> None:
    """Raise RequestError (INVALID_REQUEST) if a ShareFetch with IsRenewAck requests records.

    All four limits must be 0 in such a request. The error applies to the whole request.
    """
    if is_renew_ack and (max_wait_ms > 0 or min_bytes > 0 or max_bytes > 0 or max_records > 0):
        raise _invalid("a fetch with IsRenewAck must have MaxWaitMs, MinBytes, MaxBytes and MaxRecords of 0")


def has_renewals(batches: Sequence[AcknowledgementBatch]) -> bool:
    """Return whether any batch contains the acknowledge type RENEW."""
    return any(AcknowledgeType.RENEW in batch.acknowledge_types for batch in batches)


def _invalid(message: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REQUEST, message)
