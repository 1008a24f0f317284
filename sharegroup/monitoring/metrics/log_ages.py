"""How old the oldest record is that is not finished: at least so old, from when the log was first seen to reach it.

Nobody reads the records here, so their timestamps are not known. Kept are some ends of the log, with when they were
seen. The record at offset N was there when the log was first seen to end above N:

    seen at      t1        t2             t3
    log     -----|---------|--------------|
    start offset      ^ is at least as old as t2

A flat tuple (end, seen_ms, end, seen_ms, ...), ascending, as there may be one for each of 100,000 share-partitions.
"""

from __future__ import annotations

Ages = tuple[int, ...]
#: So many ends are kept; then every other one goes, and the age is known to within a larger part of it.
MOST_ENDS = 8


def seen(ages: Ages, start_offset: int, log_end_offset: int, now_ms: int) -> Ages:
    """After the log was seen to end here, and the start offset to be there. Empty when nothing is unfinished."""
    if log_end_offset <= start_offset:
        return ()
    first = 0
    while first < len(ages) and ages[first] <= start_offset:
        first += 2
    kept = ages[first:]
    if not kept or kept[-2] < log_end_offset:
        kept += (log_end_offset, now_ms)
    if len(kept) > 2 * MOST_ENDS:  # the first one, which is the present age, and the last one stay
        pairs = range(0, len(kept), 2)
        kept = tuple(value for pair in pairs if pair % 4 == 0 or pair == pairs[-1] for value in kept[pair : pair + 2])
    return kept


def since_ms(ages: Ages) -> int | None:
    """Since when the oldest unfinished record is known to be there; None when nothing is unfinished."""
    return ages[1] if ages else None
