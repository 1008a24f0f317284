"""Determines the start offset of a share-partition without a state.

It is the start offset in the row of the share-partition, or the log start offset if that is known and higher. If the
row has no start offset, `share.auto.offset.reset` decides.
"""

from collections.abc import Collection, Mapping

from sharegroup.config import OffsetResetStrategy
from sharegroup.job.knowledge.listing import TopicIdPartition
from sharegroup.job.knowledge.source_state import SourceState
from sharegroup.job.logs.log_offset_queries import LogOffsetQueries
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey

#: The start offsets that were looked up by time, for the strategy by_duration.
StartsByTime = Mapping[SharePartitionKey, int]


def start_offset(known: SourceState, row: SharePartitionRow, by_time: StartsByTime) -> int | None:
    """Return the start offset of a share-partition without a state; None while it cannot be determined yet.

    The reset strategy uses only log offsets that were fetched since the share-partition was added (see
    `KnownLogs.mark_stale`), because earlier ones may be old.
    """
    if row.start_offset >= 0:
        known_log = known.logs.offsets.get(TopicIdPartition.for_key(row.key))
        return max(row.start_offset, known_log.log_start_offset if known_log else 0)
    log = known.logs.current(TopicIdPartition.for_key(row.key))
    if log is None:
        return None
    strategy = known.configs.get_offset_reset(row).strategy
    if strategy is OffsetResetStrategy.EARLIEST:
        return log.log_start_offset
    if strategy is OffsetResetStrategy.LATEST:
        return log.log_end_offset
    return by_time.get(row.key)


def can_start(known: SourceState, row: SharePartitionRow, by_time: StartsByTime) -> bool:
    """Return whether the share-partition can be loaded without a state, because its start offset is known."""
    return start_offset(known, row, by_time) is not None


def fetch_starts_by_time(
    known: SourceState, queries: LogOffsetQueries, rows: Collection[SharePartitionRow], now_ms: int, brokers_ms: int
) -> dict[SharePartitionKey, int]:
    """Look up the start offsets of share-partitions with the strategy by_duration.

    Share-partitions without a response are left out. Durations count back from `brokers_ms`, the brokers' time; if it
    is 0 (not known), nothing is looked up. If a log has no record since that time, the start offset is its end offset.
    The results need not be stored, because the share-partitions are loaded in the same batch, and its rows contain the
    start offsets.
    """
    wanted: dict[int, list[SharePartitionRow]] = {}
    for row in rows:
        reset = known.configs.get_offset_reset(row)
        by_time = row.start_offset < 0 and reset.strategy is OffsetResetStrategy.BY_DURATION
        if by_time and known.logs.current(TopicIdPartition.for_key(row.key)) is not None:
            wanted.setdefault(reset.duration_ms or 0, []).append(row)
    starts: dict[SharePartitionKey, int] = {}
    for duration_ms, of_duration in wanted.items() if brokers_ms else ():
        time_ms = max(0, brokers_ms - duration_ms)  # no record is older than 1970
        logs = {TopicIdPartition.for_key(row.key).topic_partition for row in of_duration}
        found = queries.fetch_offsets_at(logs, time_ms, now_ms)
        for row in of_duration:
            log = TopicIdPartition.for_key(row.key)
            if log.topic_partition in found:
                first = found[log.topic_partition]
                starts[row.key] = known.logs.offsets[log].log_end_offset if first is None else first
    return starts
