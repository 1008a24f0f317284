"""Compute the transitions that end acquisitions. These functions do not change the window of records in flight.

- Release: a record becomes AVAILABLE, or ARCHIVED at the delivery count limit.
- Unacquire: a record becomes AVAILABLE and its delivery count is reduced, because the member never received it.
- Archive: a record is not delivered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sharegroup.core.share_partition.in_flight import InFlight
from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.record_state import ACQUIRED, ARCHIVED, AVAILABLE
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.range_map import append_fused
from sharegroup.types import AcquiredRange, Cause, OffsetRange, RecordState, Transition


def iter_held(window: InFlight, member_id: str, first: int, last: int) -> Iterator[tuple[int, int, InFlightRecord]]:
    """Yield the ranges in flight within first..last, with their records.

    Raises RequestError (INVALID_RECORD_STATE) unless `member_id` has acquired all of these records.
    """
    for held_first, held_last, record in window.items(first, last):
        if record.state is not ACQUIRED:
            raise not_held_error(f"offsets {held_first}..{held_last} are {record.state.name}")
        if record.member_id != member_id:
            raise not_held_error(f"offsets {held_first}..{held_last} are held by another member")
        if not record.delivery_count:
            raise not_held_error(f"offsets {held_first}..{held_last} are reserved for a gateway and not delivered")
        yield held_first, held_last, record


def end_acquisition(
    first: int, last: int, record: InFlightRecord, to_state: RecordState, cause: Cause, config: SharePartitionConfig
) -> Transition:
    """Return the transition that ends the acquisition of first..last.

    If `to_state` is AVAILABLE and the delivery count limit is reached, the records become ARCHIVED instead. Records
    that a gateway has reserved were not delivered, so they always become AVAILABLE, with the cause UNRESERVE.
    """
    if not record.delivery_count:
        return Transition(first, last, ACQUIRED, AVAILABLE, Cause.UNRESERVE, record.member_id, 0)
    if to_state is AVAILABLE and record.delivery_count >= config.delivery_count_limit:
        to_state = ARCHIVED
    return Transition(first, last, ACQUIRED, to_state, cause, record.member_id, record.delivery_count)


def release_ranges(
    window: InFlight, ranges: Iterable[tuple[int, int]], cause: Cause, config: SharePartitionConfig
) -> tuple[Transition, ...]:
    """Return the transitions that release `ranges`, which must be ACQUIRED."""
    transitions: list[Transition] = []
    for first, last in ranges:
        for held_first, held_last, record in window.items(first, last):
            append_fused(transitions, end_acquisition(held_first, held_last, record, AVAILABLE, cause, config))
    return tuple(transitions)


def unacquire_ranges(
    window: InFlight, start_offset: int, member_id: str, ranges: Iterable[OffsetRange]
) -> tuple[Transition, ...]:
    """Return the transitions that make `ranges` AVAILABLE and reduce the delivery counts by one.

    Offsets below `start_offset` are skipped. Raises RequestError (INVALID_RECORD_STATE) unless `member_id` holds all
    other records of `ranges`, or if ranges overlap.
    """
    transitions: list[Transition] = []
    done = start_offset - 1
    for range_first, last in sorted(ranges):
        if last < start_offset:
            continue
        first = max(range_first, start_offset)
        if first <= done:
            raise not_held_error(f"offset {first} is unacquired twice")
        if any(True for _ in window.holes(first, last)):
            raise not_held_error(f"offsets {first}..{last} are not in flight")
        for held_first, held_last, record in iter_held(window, member_id, first, last):
            count = record.delivery_count - 1
            append_fused(
                transitions,
                Transition(held_first, held_last, ACQUIRED, AVAILABLE, Cause.UNACQUIRE, member_id, count),
            )
        done = last
    return tuple(transitions)


def undo_deliveries(
    window: InFlight, start_offset: int, member_id: str, acquired: Iterable[AcquiredRange]
) -> tuple[Transition, ...]:
    """Return the transitions that undo the deliveries `acquired`.

    Records that are finished, or were delivered again since, are left out. Offsets below `start_offset` are skipped.
    A record was not delivered again if it still has the delivery count in `acquired` and its last holder is still
    `member_id`. The count alone is not sufficient: if the delivery was undone already, the next delivery has the same
    count. Ranges may overlap.
    """
    transitions: list[Transition] = []
    done = start_offset - 1
    for range_first, last, count in sorted(acquired):
        for first, held_last, record in window.items(max(range_first, done + 1), last):
            is_its_own = record.state in (ACQUIRED, AVAILABLE) and record.member_id == member_id
            if record.delivery_count == count and is_its_own and not record.is_reserved:
                append_fused(
                    transitions,
                    Transition(first, held_last, record.state, AVAILABLE, Cause.UNACQUIRE, member_id, count - 1),
                )
                done = held_last
    return tuple(transitions)


def subtract_ranges(held: Iterable[tuple[int, int]], delivered: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return the parts of `held` that no range of `delivered` contains. `held` must be ascending and disjoint."""
    parts: list[OffsetRange] = []
    sent = sorted(delivered)
    position = 0
    for first, last in held:
        while position < len(sent) and sent[position].last_offset < first:
            position += 1
        for sent_first, sent_last in sent[position:]:
            if sent_first > last:
                break
            if first < sent_first:
                parts.append(OffsetRange(first, sent_first - 1))
            first = max(first, sent_last + 1)
        if first <= last:
            parts.append(OffsetRange(first, last))
    return parts


def archive_below(window: InFlight, below: int, cause: Cause) -> tuple[Transition, ...]:
    """Return the transitions that archive unfinished records below the offset `below`.

    Records that were never delivered get no transition. `SharePartition.replay` removes all records below `below` from
    the window, with or without a transition.
    """
    transitions: list[Transition] = []
    for first, last, record in window.items(None, below - 1):
        if not record.state.is_terminal and record.delivery_count > 0:
            append_fused(
                transitions,
                Transition(first, last, record.state, ARCHIVED, cause, record.member_id, record.delivery_count),
            )
    return tuple(transitions)


def not_held_error(message: str) -> RequestError:
    """Return the INVALID_RECORD_STATE error for a request about records that its sender does not hold."""
    return RequestError(ErrorCode.INVALID_RECORD_STATE, message)
