"""Records that will not be delivered again although nobody accepted them, read from `delivery_log` without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharegroup.storage.rows import DeltaTables, StorageOptions
from sharegroup.storage.schemas import DELIVERY_LOG
from sharegroup.types import Cause, RecordState

#: The causes (`cause` in `delivery_log`) with which a record is archived when it reaches the delivery count limit.
LIMIT_CAUSES = (Cause.RELEASE.value, Cause.LOCK_TIMEOUT.value, Cause.MEMBER_LEFT.value)
REJECTED_CAUSES = (Cause.REJECT.value,)


class DeadEnd(NamedTuple):
    """A range that was rejected, or archived at the delivery count limit; the columns are those of `delivery_log`."""

    group_id: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    cause: str
    delivery_count: int
    member_id: str | None
    time: datetime


class HourCounts(NamedTuple):
    """The dead ends of one hour.

    Attributes:
        ranges: the number of ranges.
        rejected: the number of records that were rejected.
        limited: the number of records that were archived at the delivery count limit.
    """

    ranges: int = 0
    rejected: int = 0
    limited: int = 0

    def __add__(self, other: HourCounts) -> HourCounts:  # type: ignore[override]  # a sum, not a longer tuple
        return HourCounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class DeadEnds(NamedTuple):
    """The dead ends that were found.

    Attributes:
        newest: the newest ranges, up to a limit, newest first.
        counts: {(topic, start of the hour in UTC): counts of all ranges of this topic and hour}.
        group_ids: the groups that have a dead end.
    """

    newest: tuple[DeadEnd, ...]
    counts: dict[tuple[str, datetime], HourCounts]
    group_ids: frozenset[str]

    @property
    def ranges(self) -> int:
        """The total number of ranges."""
        return sum(counts.ranges for counts in self.counts.values())

    def by_hour(self) -> dict[datetime, HourCounts]:
        """Return the counts of all topics: {start of the hour, UTC: counts}."""
        found: dict[datetime, HourCounts] = {}
        for (_, hour), counts in self.counts.items():
            found[hour] = found.get(hour, HourCounts()) + counts
        return found

    def for_topics(self, is_shown: Callable[[str], bool]) -> DeadEnds:
        """Return the dead ends of the topics for which `is_shown` returns True. `group_ids` stays unchanged."""
        shown = {topic for topic in {topic for topic, _ in self.counts} if is_shown(topic)}
        return DeadEnds(
            tuple(row for row in self.newest if row.topic in shown),
            {key: counts for key, counts in self.counts.items() if key[0] in shown},
            self.group_ids,
        )


def read_dead_ends(
    tables: str | DeltaTables,
    since: datetime,
    group_id: str | None = None,
    causes: Iterable[str] = (*REJECTED_CAUSES, *LIMIT_CAUSES),
    most: int = 1_000,
    storage_options: StorageOptions = None,
) -> DeadEnds:
    """Return the dead ends of a group, or by default of all groups, since the time `since`.

    `causes` are the values of the column `cause` to include. The result contains the newest `most` ranges, and counts
    of all ranges. Files of earlier days are not read. Raises TableUnavailableError.
    """
    wanted = (
        (pc.field("day") >= since.astimezone(UTC).date())
        & (pc.field("time") >= pa.scalar(since, pa.timestamp("us", tz="UTC")))
        & (pc.field("to_state") == RecordState.ARCHIVED.name)
        & pc.field("cause").isin(sorted(causes))
    )
    if group_id is not None:
        wanted = wanted & (pc.field("group_id") == group_id)
    found = DeltaTables.from_path(tables, storage_options).select(DELIVERY_LOG, wanted, DeadEnd._fields)
    newest = found.sort_by([("time", "descending"), ("first_offset", "descending")]).slice(0, most)
    group_ids = frozenset(pc.unique(found["group_id"]).to_pylist())
    return DeadEnds(tuple(DeadEnd(**row) for row in newest.to_pylist()), _counts(found), group_ids)


def _counts(found: pa.Table) -> dict[tuple[str, datetime], HourCounts]:
    hours = pc.floor_temporal(found["time"], unit="hour")
    records = pc.add(pc.subtract(found["last_offset"], found["first_offset"]), 1)
    is_rejected = pc.is_in(found["cause"], pa.array(REJECTED_CAUSES))
    counted = pa.table({"topic": found["topic"], "hour": hours, "is_rejected": is_rejected, "records": records})
    by_cause = counted.group_by(["topic", "hour", "is_rejected"]).aggregate([("records", "sum"), ("records", "count")])
    counts: dict[tuple[str, datetime], HourCounts] = {}
    for row in by_cause.to_pylist():
        key, number = (row["topic"], row["hour"]), row["records_sum"]
        records_of = (number, 0) if row["is_rejected"] else (0, number)
        counts[key] = counts.get(key, HourCounts()) + HourCounts(row["records_count"], *records_of)
    return counts


def hours_since(since: datetime, now: datetime) -> list[datetime]:
    """Return the start (UTC) of each hour, from the hour of `since` to the hour of `now`."""
    first = since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    count = int((now - first) / timedelta(hours=1)) + 1
    return [first + timedelta(hours=number) for number in range(count)]
