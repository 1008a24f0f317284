"""Which days of the growing tables can go: whole partitions only, and never what recovery needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sharegroup.commit.delta_table import open_or_create
from sharegroup.tables.schemas import DELIVERY_LOG, SHARE_GROUP_STATE

#: share_group_state keeps at least this many days, like the versions that a pinned offset may name.
_STATE_DAYS = 2
_KEY = ["group_id", "topic_id", "partition"]


def prunable(
    tables_path: str,
    delivery_log_retention_ms: int,
    names: Collection[str],
    now: datetime | None = None,
    options: dict[str, str] | None = None,
) -> Mapping[str, str]:
    """{table: predicate over `day`} for those of the named tables that have days to drop.

    `delivery_log` keeps its retention. `share_group_state` keeps two days, and every day from the oldest newest
    snapshot on: a share-partition that is not led (its topic is away) has not been written again, and its state must
    stay.
    """
    today = (now or datetime.now(UTC)).date()
    found: dict[str, str] = {}
    log_before = today - timedelta(days=1 + delivery_log_retention_ms // 86_400_000)
    if DELIVERY_LOG.name in names and _oldest_day(open_or_create(tables_path, DELIVERY_LOG, options)) < log_before:
        found[DELIVERY_LOG.name] = f"day < '{log_before.isoformat()}'"
    if SHARE_GROUP_STATE.name not in names:
        return found
    state = open_or_create(tables_path, SHARE_GROUP_STATE, options)
    state_before = today - timedelta(days=_STATE_DAYS)
    oldest = _oldest_day(state)
    if oldest < state_before and oldest < (state_before := min(state_before, _oldest_newest_snapshot(state))):
        found[SHARE_GROUP_STATE.name] = f"day < '{state_before.isoformat()}'"
    return found


def _oldest_day(table: DeltaTable) -> date:
    days = [date.fromisoformat(partition["day"]) for partition in table.partitions()]
    return min(days, default=date.max)


def _oldest_newest_snapshot(table: DeltaTable) -> date:
    """The day of the newest snapshot of the share-partition that was written longest ago; deleted ones need none.

    A tombstone's own day is not older than the snapshots that it forgets, so these go first. Rows without a topic id
    are of an earlier version, and were carried over to rows that have one.
    """
    rows: pa.Table = table.to_pyarrow_table(columns=[*_KEY, "record_type", "leader_epoch", "batch_id", "day"])
    rows = rows.sort_by([("leader_epoch", "ascending"), ("batch_id", "ascending")])
    rows = rows.filter(pc.is_valid(rows["topic_id"]))
    rows = rows.filter(pc.is_in(rows["record_type"], value_set=pa.array(["ShareSnapshot", "Tombstone"])))
    newest = rows.group_by(_KEY, use_threads=False).aggregate([("day", "last"), ("record_type", "last")])
    newest = newest.filter(pc.equal(newest["record_type_last"], "ShareSnapshot"))
    oldest = pc.min(newest["day_last"]).as_py()
    return date.max if oldest is None else oldest
