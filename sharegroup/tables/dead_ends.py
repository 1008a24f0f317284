"""Records that nobody will get again though nobody has finished them, from `delivery_log`, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from sharegroup.tables.rows import StorageOptions, Tables, TableUnavailableError
from sharegroup.tables.schemas import DELIVERY_LOG
from sharegroup.tables.store_outage import one_line
from sharegroup.types import Cause, RecordState

#: Why records are archived that would have come again: the delivery count limit.
LIMIT_CAUSES = (Cause.RELEASE.value, Cause.LOCK_TIMEOUT.value, Cause.MEMBER_LEFT.value)
REJECTED_CAUSES = (Cause.REJECT.value,)


class DeadEnd(NamedTuple):
    """A range that was rejected (`cause` is reject), or archived at the limit; the columns are `delivery_log`'s."""

    group_id: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    cause: str
    delivery_count: int
    member_id: str | None
    time: datetime


class DeadEnds(NamedTuple):
    """The newest ranges first; `by_hour` counts the records of all: {begin of the hour: (rejected, at the limit)}."""

    newest: tuple[DeadEnd, ...]
    ranges: int
    by_hour: dict[datetime, tuple[int, int]]


def read_dead_ends(
    tables: str | Tables,
    since: datetime,
    group_id: str | None = None,
    causes: Iterable[str] = (*REJECTED_CAUSES, *LIMIT_CAUSES),
    most: int = 1_000,
    storage_options: StorageOptions = None,
) -> DeadEnds:
    """Those of a group, or of all, from `since` on: `most` of the ranges, and counts. Raises TableUnavailableError.

    Only the days from `since` on are read.
    """
    opened = Tables.of(tables, storage_options).open(DELIVERY_LOG)
    wanted = (
        (pc.field("day") >= since.astimezone(UTC).date())
        & (pc.field("time") >= pa.scalar(since, pa.timestamp("us", tz="UTC")))
        & (pc.field("to_state") == RecordState.ARCHIVED.name)
        & pc.field("cause").isin(sorted(causes))
    )
    if group_id is not None:
        wanted = wanted & (pc.field("group_id") == group_id)
    try:
        found = opened.to_pyarrow_table(filters=wanted, columns=list(DeadEnd._fields))
    except (DeltaError, OSError) as error:
        raise TableUnavailableError(f"table {DELIVERY_LOG.name} cannot be read: {one_line(error)}") from error
    newest = found.sort_by([("time", "descending"), ("first_offset", "descending")]).slice(0, most)
    return DeadEnds(tuple(DeadEnd(**row) for row in newest.to_pylist()), len(found), _by_hour(found))


def _by_hour(found: pa.Table) -> dict[datetime, tuple[int, int]]:
    hours = pc.floor_temporal(found["time"], unit="hour")
    records = pc.add(pc.subtract(found["last_offset"], found["first_offset"]), 1)
    is_rejected = pc.is_in(found["cause"], pa.array(REJECTED_CAUSES))
    counted = pa.table({"hour": hours, "is_rejected": is_rejected, "records": records})
    counts: dict[datetime, tuple[int, int]] = {}
    for row in counted.group_by(["hour", "is_rejected"]).aggregate([("records", "sum")]).to_pylist():
        rejected, limited = counts.get(row["hour"], (0, 0))
        if row["is_rejected"]:
            rejected += row["records_sum"]
        else:
            limited += row["records_sum"]
        counts[row["hour"]] = rejected, limited
    return counts


def hours_since(since: datetime, now: datetime) -> list[datetime]:
    """The begin of each hour between two times, UTC, that of `since` first."""
    first = since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    count = int((now - first) / timedelta(hours=1)) + 1
    return [first + timedelta(hours=number) for number in range(count)]
