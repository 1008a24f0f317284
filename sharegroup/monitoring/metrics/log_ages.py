"""Computes a lower bound for the age of the oldest unfinished record of a share-partition.

The job does not read records, so it does not know their timestamps. It stores some end offsets of the log, each with
the time of the first observation. When the job first observes an end offset above N, the record at offset N exists:

    observed at  t1        t2             t3
    log     -----|---------|--------------|
    start offset      ^ is at least as old as t2

The end offsets of a share-partition are a flat, ascending tuple (end, observed_ms, end, observed_ms, ...). It is flat
because there may be 100,000 share-partitions.
"""

LogEnds = tuple[int, ...]
#: Maximum number of end offsets per share-partition. If there are more, every second one is dropped, which makes the
#: age less precise.
MAX_ENDS = 8


def add_observation(ages: LogEnds, start_offset: int, log_end_offset: int, now_ms: int) -> LogEnds:
    """Return the stored end offsets `ages`, updated with `log_end_offset`, which was observed at `now_ms`.

    `log_end_offset` is added if it is higher than the stored end offsets. End offsets up to the start offset are
    removed, because all records below them are finished. If more than `MAX_ENDS` are left, about every second one is
    dropped. The result is empty if all records are finished.
    """
    if log_end_offset <= start_offset:
        return ()
    first = 0
    while first < len(ages) and ages[first] <= start_offset:
        first += 2
    kept = ages[first:]
    if not kept or kept[-2] < log_end_offset:
        kept += (log_end_offset, now_ms)
    if len(kept) > 2 * MAX_ENDS:  # keep the first, which is the current age, and the last
        pairs = range(0, len(kept), 2)
        kept = tuple(value for pair in pairs if pair % 4 == 0 or pair == pairs[-1] for value in kept[pair : pair + 2])
    return kept


def oldest_ms(ages: LogEnds) -> int | None:
    """Return the earliest known time (ms) at which the oldest unfinished record existed; None if all are finished."""
    return ages[1] if ages else None
