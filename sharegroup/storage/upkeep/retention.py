"""Selects the days of append-only tables whose rows can be deleted. Days that recovery needs are kept.

The decision uses only the tables' logs; no row is read.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable

from sharegroup.storage.reading.state_base import Cut, cut_of

#: `share_group_state` keeps at least this many days, because a source's offset may name a version of that age.
_STATE_DAYS = 2


def delivery_log_predicate(log: DeltaTable, retention_ms: int, now: datetime) -> str | None:
    """Return an SQL predicate on `day` that selects the rows of `delivery_log` to delete; None if there are none.

    A day is deleted as a whole, and only if all its rows are older than `retention_ms`.
    """
    return _before(log, now.date() - timedelta(days=1 + retention_ms // 86_400_000))


def state_predicate(state: DeltaTable, base: DeltaTable, now: datetime) -> str | None:
    """Return an SQL predicate on `day` that selects the rows of `share_group_state` to delete; None if there are none.

    `state` is `share_group_state`. `base` is `share_group_state_base`, with a cut that is not after the version of
    `state`. If the base is empty, nothing is deleted. Otherwise, all days before the earliest of these are deleted:

    - today and the two days before;
    - for each share-partition, the day of its newest snapshot, because recovery reads this snapshot. It may be old,
      because a share-partition that is not managed (for example without its topic) writes no snapshots;
    - the days with rows after the cut of the base.
    """
    cut = cut_of(base)
    if cut is None:
        return None
    oldest = pa.table(base.get_add_actions(flatten=True))["min.snapshot_time"].to_pylist()
    snapshots = [time.date() for time in oldest if time is not None]
    return _before(state, min(now.date() - timedelta(days=_STATE_DAYS), *snapshots, *_days_after(state, cut)))


def _days_after(state: DeltaTable, cut: Cut) -> Iterable[date]:
    """Yield the days of the files that may have a row after the cut."""
    files = pa.table(state.get_add_actions(flatten=True))
    columns = ("partition.day", "max.leader_epoch", "max.batch_id")
    for day, *newest in zip(*(files[column].to_pylist() for column in columns), strict=True):
        if None in newest or tuple(newest) > (cut.leader_epoch, cut.batch_id):
            yield day


def _before(table: DeltaTable, day: date) -> str | None:
    oldest = min((date.fromisoformat(partition["day"]) for partition in table.partitions()), default=date.max)
    return f"day < '{day.isoformat()}'" if oldest < day else None
