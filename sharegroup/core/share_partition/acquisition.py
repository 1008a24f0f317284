"""Which records a fetch acquires: the walk over the window and into the log (KIP-932, "Fetching and acquiring").

Pure selection on behalf of `SharePartition.acquire`; nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from sharegroup.core.share_partition.in_flight import InFlight
from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.record_state import AVAILABLE
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig
from sharegroup.core.share_partition.throttling import batch_share, throttle_threshold, travels_alone


class Portion(NamedTuple):
    """Records of one delivery count (before this delivery) that are there to be acquired; 0 for never delivered."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Budget(NamedTuple):
    """How far one fetch may go: `records` of them at most, none beyond `last_offset`."""

    records: int
    last_offset: int


def fetch_budget(
    fetch_offset: int, end_offset: int, window_size: int, log_end_offset: int, max_records: int, max_record_locks: int
) -> Budget:
    """The budget of a fetch at `fetch_offset`, of at most `max_records` records, with `window_size` in flight.

    With room left in the window the fetch gets as much as fits. With none left it gets what is AVAILABLE again inside
    the window, and nothing new: so a window exactly at its limit can be delivered again as a whole.
    """
    if window_size < max_record_locks:
        return Budget(min(max_records, max_record_locks - window_size), log_end_offset - 1)
    return Budget(min(max_records, end_offset - fetch_offset), min(log_end_offset, end_offset) - 1)


def select(
    window: InFlight, fetch_offset: int, end_offset: int, with_holes: bool, budget: Budget, config: SharePartitionConfig
) -> Iterator[Portion]:
    """What a fetch acquires, in offset order: records of the window that are AVAILABLE, then new ones of the log.

    `with_holes`: holes of the window are records that were never delivered, and are acquired in passing.
    """
    limit = config.delivery_count_limit
    threshold = throttle_threshold(limit)
    taken = 0
    candidates = _candidates(window, fetch_offset, budget.last_offset, with_holes)
    for (batch_first, batch_last), ranges in groupby(candidates, key=_fetch_batch):
        throttled = window.any_delivered(threshold, max(batch_first, fetch_offset), min(batch_last, budget.last_offset))
        if throttled and taken:
            return
        room, batch_length = budget.records - taken, batch_last - batch_first + 1
        for portion in _take(ranges, batch_length, room, threshold, limit):
            taken += portion.last_offset - portion.first_offset + 1
            yield portion
        if throttled or taken >= budget.records:
            return  # here, not at the next turn: groupby would walk over the rest of this batch to get there
    first = max(fetch_offset, end_offset)
    last = min(budget.last_offset, first + budget.records - taken - 1)
    if first <= last:
        yield Portion(first, last, 0)


def _take(
    ranges: Iterable[tuple[int, int, InFlightRecord]], batch_length: int, room: int, threshold: int, limit: int
) -> Iterator[Portion]:
    """What of one fetch batch is acquired. The first record at or over `threshold` fixes the share of the batch that
    travels together; the records in front of it count towards that share. Having already taken the share or more by
    then, the fetch goes on without one, as Kafka does.
    """
    taken = 0
    share: int | None = None
    for first, last, record in ranges:
        count = record.delivery_count
        alone = travels_alone(count, limit)
        if alone and taken:
            return
        if share is None and count >= threshold:
            share = batch_share(batch_length, count, threshold)
            if taken < share:
                room = min(room, share)
        length = 1 if alone else min(last - first + 1, room - taken)
        if length > 0:
            yield Portion(first, first + length - 1, count)
            taken += length
        if alone or taken >= room:
            return


def _candidates(window: InFlight, first: int, last: int, with_holes: bool) -> Iterable[tuple[int, int, InFlightRecord]]:
    """The AVAILABLE ranges of first..last, and the holes between what is known, in offset order."""
    available = window.available(first, last)
    if not with_holes or window.last_offset is None:
        return available
    holes = (
        (hole_first, hole_last, InFlightRecord(AVAILABLE, 0, None, None, hole_first, hole_last))
        for hole_first, hole_last in window.holes(first, min(last, window.last_offset))
    )
    return sorted([*available, *holes])


def _fetch_batch(candidate: tuple[int, int, InFlightRecord]) -> tuple[int, int]:
    return candidate[2].batch_first, candidate[2].batch_last
