"""Reservations: offsets after the end of the log that a gateway holds for its members.

These functions compute transitions and do not change the window.

A member cannot acquire a record before the record arrives, and the next micro-batch then takes some hundred
milliseconds. To avoid this delay, a gateway with waiting members reserves the offsets of the next records. The gateway
reads new records from the end of the log, chooses a member for each record, and *assigns* the record to it. The job
applies the assignment later::

    log          [ finished ][ in flight ]|                      | the end of the log
    window        start offset            RRRRRRRRRRSSSSSSSS     R, S are reserved for two gateways
    later        [ finished ][ in flight  mmmmnn]RRRSSSSSSSS     m, n were assigned to two members

A reserved record is ACQUIRED with delivery count 0. Its holder is a *reserver*: a gateway in one of its reservation
epochs. Reserved records have no deadlines. All reservations of a gateway end when its lease expires
(`core.operators.gateway_leases`). An assignment is a delivery: the count becomes 1, and the lock begins with the append
of the `assign` row. When a reservation ends, its unassigned records become AVAILABLE with delivery count 0. Such
records at the end of the window are removed from the window, so they are no longer in flight.

A gateway begins a new reservation epoch when its reservation has ended, or may have ended without a notice. Therefore
an assignment of the old epoch cannot take effect on the new reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sharegroup.core.share_partition.in_flight import InFlight
from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.record_state import ACQUIRED, AVAILABLE
from sharegroup.core.share_partition.release import not_held_error
from sharegroup.protocol.range_map import append_fused
from sharegroup.types import Cause, OffsetRange, Transition

_SEPARATOR = "#"
#: The lock deadline of reserved records in memory: the last millisecond of the year 9998. They need a deadline for the
#: index of locks. In stored state batches, reserved records have no deadline.
NO_DEADLINE_MS = 253_370_764_799_999


def reserver_id(requester: str, reservation_epoch: int) -> str:
    """Return the id of a gateway as the holder of the records that it reserves in this reservation epoch.

    `requester` is the gateway's `reply_to`.
    """
    return f"{requester}{_SEPARATOR}{reservation_epoch}"


def requester_of(reserver: str) -> str:
    """Return the `reply_to` of the gateway in a holder id that `reserver_id` made."""
    return reserver.rpartition(_SEPARATOR)[0]


def reservation_epoch_of(reserver: str) -> int:
    """Return the reservation epoch in a holder id that `reserver_id` made."""
    return int(reserver.rpartition(_SEPARATOR)[2])


def find_reservers(window: InFlight) -> list[str]:
    """Return the holder ids (`reserver_id`) of all reserved records, sorted."""
    return [
        holder
        for holder in window.members()
        if _SEPARATOR in holder and any(True for _ in iter_reserved(window, holder))
    ]


def iter_reserved(window: InFlight, reserver: str) -> Iterator[tuple[int, int, InFlightRecord]]:
    """Yield the ranges that are reserved for `reserver` (a `reserver_id`), in offset order."""
    for held_first, held_last in window.held_ranges(reserver):
        for first, last, record in window.items(held_first, held_last):
            if record.is_reserved:
                yield first, last, record


def reserve_ranges(
    window: InFlight,
    reserver: str,
    records: int,
    log_end_offset: int,
    free: OffsetRange | None,
) -> tuple[Transition, ...]:
    """Return the transitions that raise the number of offsets reserved for `reserver` to `records`.

    First, offsets of ended reservations are reserved: AVAILABLE offsets at or above `log_end_offset` that are still in
    the window. Then offsets of `free` are reserved, a range that begins at the end of the window. If there are too few
    offsets, fewer are reserved. If `free` is None, nothing is reserved.
    """
    transitions: list[Transition] = []
    missing = records - sum(last - first + 1 for first, last, _ in iter_reserved(window, reserver))
    unheld = window.available(log_end_offset, free.first_offset - 1) if free is not None else ()
    candidates = [OffsetRange(first, last) for first, last, record in unheld if record.delivery_count == 0]
    for first, last in [*candidates, *([free] if free is not None else [])]:
        if missing <= 0:
            break
        last = min(last, first + missing - 1)
        missing -= last - first + 1
        reserved = Transition(first, last, AVAILABLE, ACQUIRED, Cause.RESERVE, reserver, 0, NO_DEADLINE_MS)
        append_fused(transitions, reserved)
    return tuple(transitions)


def assign_ranges(
    window: InFlight,
    start_offset: int,
    reserver: str,
    member_id: str,
    ranges: Iterable[OffsetRange],
    append_ms: int,
    lock_duration_ms: int,
) -> tuple[Transition, ...]:
    """Return the transitions that assign the reserved `ranges` to a member.

    The locks end `lock_duration_ms` after `append_ms`, the append time of the request. Offsets below `start_offset` are
    skipped. Raises RequestError (INVALID_RECORD_STATE) if an offset is not reserved for `reserver`, or if ranges
    overlap.
    """
    transitions: list[Transition] = []
    expected = start_offset
    for range_first, last in sorted(ranges):
        if last < start_offset:
            continue
        first = max(range_first, start_offset)
        if first < expected:
            raise not_held_error(f"offset {first} is assigned twice")
        expected = first
        for held_first, held_last, record in window.items(first, last):
            if held_first != expected or not record.is_reserved or record.member_id != reserver:
                break
            deadline_ms = append_ms + lock_duration_ms
            append_fused(
                transitions,
                Transition(held_first, held_last, ACQUIRED, ACQUIRED, Cause.ASSIGN, member_id, 1, deadline_ms),
            )
            expected = held_last + 1
        if expected <= last:
            raise not_held_error(f"offsets {expected}..{last} are not reserved for {reserver}")
    return tuple(transitions)


def unreserve_ranges(
    window: InFlight, reserver: str, ranges: Sequence[OffsetRange] | None = None
) -> tuple[Transition, ...]:
    """Return the transitions that end the reservation of `ranges`, or of all offsets of `reserver` if `ranges` is None.

    Offsets that are not reserved for `reserver` are skipped.
    """
    transitions: list[Transition] = []
    for first, last, _ in iter_reserved(window, reserver):
        for part_first, part_last in [(first, last)] if ranges is None else _overlaps(first, last, ranges):
            transition = Transition(part_first, part_last, ACQUIRED, AVAILABLE, Cause.UNRESERVE, reserver, 0)
            append_fused(transitions, transition)
    return tuple(transitions)


def reassign_ranges(released: Iterable[Transition], member_id: str, deadline_ms: int) -> tuple[Transition, ...]:
    """Return the transitions that deliver released records to `member_id`. Their locks end at `deadline_ms`.

    `released` are the transitions by which another member has just released the records. The caller must have applied
    them before.
    """
    transitions: list[Transition] = []
    for first, last, _, _, _, _, count, _ in released:
        delivery = Transition(first, last, AVAILABLE, ACQUIRED, Cause.ASSIGN, member_id, count + 1, deadline_ms)
        append_fused(transitions, delivery)
    return tuple(transitions)


def _overlaps(first: int, last: int, ranges: Iterable[OffsetRange]) -> Iterator[tuple[int, int]]:
    """Yield the parts of first..last that lie in `ranges`, each once and in offset order."""
    done = first - 1
    for range_first, range_last in sorted(ranges):
        part_first, part_last = max(range_first, done + 1), min(range_last, last)
        if part_first <= part_last:
            yield part_first, part_last
            done = part_last
