"""Select the records that a fetch acquires: first AVAILABLE records in flight, then new records of the log.

See KIP-932, "Fetching and acquiring". `SharePartition.acquire` uses these functions. They do not change the window of
records in flight.

Throttling. Records that failed often are delivered in ever smaller portions. Otherwise one bad record could cause its
neighbours to be archived, because they are delivered and released together with it (Kafka 4.2, not in the text of
KIP-932). The new records that one fetch acquired together are a *fetch batch*. Once the delivery count of a record has
reached half of its limit (`throttle_threshold`), a fetch acquires only a part of this record's fetch batch, and no
other records. With a limit of 5, a batch of ten records is delivered three times as a whole, then five records
together, and then single records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from sharegroup.core.share_partition.in_flight import InFlight
from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.record_state import AVAILABLE
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig


class Portion(NamedTuple):
    """A range of records that a fetch acquires.

    All records of the range have the same `delivery_count`. It does not include the new delivery, so it is 0 for
    records that were never delivered.
    """

    first_offset: int
    last_offset: int
    delivery_count: int


class Budget(NamedTuple):
    """The limits of one fetch: at most `records` records, none above `last_offset`."""

    records: int
    last_offset: int


def fetch_budget(
    fetch_offset: int, end_offset: int, window_size: int, log_end_offset: int, max_records: int, max_record_locks: int
) -> Budget:
    """Return the limits of a fetch: how many records it may acquire, and up to which offset.

    `fetch_offset` is the first offset that can be acquired, and `end_offset` is the end of the window. `window_size` is
    the number of records in flight. If it is below the limit `max_record_locks`, the fetch may acquire at most the
    difference. At the limit, it may acquire no new records, but still AVAILABLE records in flight.
    """
    if window_size < max_record_locks:
        return Budget(min(max_records, max_record_locks - window_size), log_end_offset - 1)
    return Budget(min(max_records, end_offset - fetch_offset), min(log_end_offset, end_offset) - 1)


def select_portions(
    window: InFlight, fetch_offset: int, end_offset: int, with_holes: bool, budget: Budget, config: SharePartitionConfig
) -> Iterator[Portion]:
    """Yield the ranges that a fetch acquires: AVAILABLE records in flight, then new records of the log.

    The ranges are in offset order, from `fetch_offset` on. `end_offset` is the end of the window. If `with_holes`,
    offsets in the window that have no state are acquired too. They count as never delivered.
    """
    limit = config.delivery_count_limit
    threshold = throttle_threshold(limit)
    selected = 0
    candidates = _candidates(window, fetch_offset, budget.last_offset, with_holes)
    for (batch_first, batch_last), ranges in groupby(candidates, key=_fetch_batch):
        throttled = window.has_delivered(threshold, max(batch_first, fetch_offset), min(batch_last, budget.last_offset))
        if throttled and selected:
            return
        room, batch_length = budget.records - selected, batch_last - batch_first + 1
        for portion in _select_from_batch(ranges, batch_length, room, threshold, limit):
            selected += portion.last_offset - portion.first_offset + 1
            yield portion
        if throttled or selected >= budget.records:
            return  # here, because the next step of groupby would iterate over the rest of this batch
    first = max(fetch_offset, end_offset)
    last = min(budget.last_offset, first + budget.records - selected - 1)
    if first <= last:
        yield Portion(first, last, 0)


def _select_from_batch(
    ranges: Iterable[tuple[int, int, InFlightRecord]], batch_length: int, room: int, threshold: int, limit: int
) -> Iterator[Portion]:
    """Yield the ranges to acquire from one fetch batch of `batch_length` records, at most `room` records in total.

    Records that were delivered `threshold` times or more may be bad, so fewer records are delivered together with them.
    `batch_share` computes this lower maximum from the delivery count of the first such record. If the ranges before
    that record already contain as many records as the lower maximum, only `room` applies, as in Kafka. A record with
    only one delivery left is delivered alone. `limit` is the delivery count limit.
    """
    selected = 0
    share: int | None = None
    for first, last, record in ranges:
        count = record.delivery_count
        alone = is_delivered_alone(count, limit)
        if alone and selected:
            return
        if share is None and count >= threshold:
            share = batch_share(batch_length, count, threshold)
            if selected < share:
                room = min(room, share)
        length = 1 if alone else min(last - first + 1, room - selected)
        if length > 0:
            yield Portion(first, first + length - 1, count)
            selected += length
        if alone or selected >= room:
            return


def _candidates(window: InFlight, first: int, last: int, with_holes: bool) -> Iterable[tuple[int, int, InFlightRecord]]:
    """Return the AVAILABLE ranges of first..last in offset order. If `with_holes`, include offsets without a state."""
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


def throttle_threshold(delivery_count_limit: int) -> int:
    """Return the lowest delivery count at which a record is delivered in smaller portions.

    This is half of the limit, rounded up, but at least 2.
    """
    return max(2, (delivery_count_limit + 1) // 2)


def batch_share(batch_length: int, delivery_count: int, threshold: int) -> int:
    """Return how many records of a throttled fetch batch are delivered together.

    At `threshold` deliveries, this is half of the batch. Each further delivery halves the number again, down to 1.
    """
    return max(1, batch_length >> (delivery_count - threshold + 1))


def is_delivered_alone(delivery_count: int, delivery_count_limit: int) -> bool:
    """Return whether a record must be delivered alone, because only one delivery is left.

    False if the delivery count limit is 1 or 2.
    """
    return delivery_count_limit > 2 and delivery_count == delivery_count_limit - 1
