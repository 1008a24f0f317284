"""The checks of reservations, at the end: `share_group_state` compared with the rows that gateways have appended.

- an assignment has an effect only on the reservation, and in the reservation epoch, that its row names;
- a reservation ends with the life of its share-partition (an offset reset, a deletion);
- each lease was requested by its gateway, so nobody renews those of a gateway that is dead.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sharegroup.core.share_partition.reservation import reserver_id
from sharegroup.protocol.rows.reservation_requests import ASSIGN, RESERVE
from sharegroup.storage.schemas import SHARE_GROUP_STATE
from sharegroup.types import RecordState
from tests.simulation.members import table_adapter
from tests.simulation.members.table_adapter import TableKey
from tests.simulation.world import PARTITION_REQUESTS, World


class _Held(NamedTuple):
    """The holder of a record in flight, the end of its lock or lease, and how often it was delivered."""

    holder: str
    deadline_ms: int
    delivery_count: int


class _Requests(NamedTuple):
    """The rows of gateways by share-partition: (append time, row)."""

    reserves: dict[TableKey, list[tuple[int, dict[str, Any]]]]
    assigns: dict[TableKey, list[tuple[int, dict[str, Any]]]]


def judge_reservations(world: World) -> None:
    """Add all problems to the judge's violations. Rows that retention has deleted are not compared."""
    logs = world.kafka.topic(PARTITION_REQUESTS).partitions
    if any(log.log_start_offset for log in logs):
        return
    requests = _requests(record for log in logs for record in log.records(0))
    by_key: dict[TableKey, list[dict[str, Any]]] = defaultdict(list)
    for row in world.tables.rows(SHARE_GROUP_STATE):
        by_key[table_adapter.of_row(row)].append(row)
    for key, rows in sorted(by_key.items()):
        rows.sort(key=lambda row: (row["leader_epoch"], row["batch_id"]))
        _Partition(world, key, requests).judge(rows)


class _Partition:
    """One share-partition, row by row."""

    def __init__(self, world: World, key: TableKey, requests: _Requests) -> None:
        self._judge, self._key = world.judge, key
        self._assigns, self._reserves = requests.assigns[key], requests.reserves[key]
        self._held: dict[int, _Held] = {}
        #: The leases of each reserver, in the order of the rows.
        self._leases: dict[str, list[int]] = defaultdict(list)

    def judge(self, rows: Iterable[Mapping[str, Any]]) -> None:
        state_epoch = -1
        for row in rows:
            before, now = self._held, dict(_holders(row))
            if row["record_type"] == "ShareUpdate":
                changed = {offset for batch in row["state_batches"] for offset in _offsets(batch)}
                kept = {offset: held for offset, held in before.items() if offset not in changed}
                now = {**{o: h for o, h in kept.items() if row["start_offset"] <= o < row["end_offset"]}, **now}
            if row["record_type"] == "Tombstone" or row["state_epoch"] > state_epoch >= 0:
                self._check_ends(before, now)
            else:
                self._check_assignments(before, now)
            self._check_leases(now)
            self._held, state_epoch = now, max(state_epoch, row["state_epoch"])  # an update has -1

    def _check_ends(self, before: Mapping[int, _Held], now: Mapping[int, _Held]) -> None:
        earlier = {held for held in before.values() if not held.delivery_count}
        for offset, held in now.items():
            if held in earlier:
                text = f"{offset}: is reserved for {held.holder} as before the share-partition was reset"
                self._judge.violate("a reservation ends at a reset", text, self._key.named())

    def _check_assignments(self, before: Mapping[int, _Held], now: Mapping[int, _Held]) -> None:
        for offset, held in now.items():
            reserved = before.get(offset)
            if reserved is None or reserved.delivery_count or not held.delivery_count:
                continue
            named = [row for append_ms, row in self._assigns if _is_of(append_ms, row, offset, held)]
            if named and not any(_reserver(row, row["requester"]) == reserved.holder for row in named):
                text = f"{offset}: was reserved for {reserved.holder}, assigned by {named[0]}"
                self._judge.violate("an assignment is for one reservation", text, self._key.named())

    def _check_leases(self, now: Mapping[int, _Held]) -> None:
        for holder, deadline_ms in sorted({(h.holder, h.deadline_ms) for h in now.values() if not h.delivery_count}):
            leases = self._leases[holder]
            if deadline_ms in leases:
                continue
            leases.append(deadline_ms)
            requested = [
                append_ms
                for append_ms, row in self._reserves
                if _reserver(row, row["reply_to"]) == holder and append_ms + row["lease_ms"] <= deadline_ms
            ]
            if len(requested) < len(leases):
                text = f"{holder} has had {len(leases)} leases and requested {len(requested)}"
                self._judge.violate("a gateway renews its own leases", text, self._key.named())


def _requests(records: Iterable[tuple[int, Any]]) -> _Requests:
    found = _Requests(defaultdict(list), defaultdict(list))
    for append_ms, record in records:
        row = json.loads(record.value)
        of_kind = {RESERVE: found.reserves, ASSIGN: found.assigns}.get(row.get("type"))
        if of_kind is not None:
            of_kind[table_adapter.of_row(row)].append((append_ms, row))
    return found


def _holders(row: Mapping[str, Any]) -> Iterator[tuple[int, _Held]]:
    for batch in row["state_batches"] or ():
        deadline = batch["lock_deadline"]
        if batch["delivery_state"] == RecordState.ACQUIRED and batch["member_id"] and deadline is not None:
            held = _Held(batch["member_id"], round(deadline.timestamp() * 1000), batch["delivery_count"])
            for offset in _offsets(batch):
                yield offset, held


def _offsets(batch: Mapping[str, Any]) -> range:
    return range(batch["first_offset"], batch["last_offset"] + 1)


def _is_of(append_ms: int, row: Mapping[str, Any], offset: int, held: _Held) -> bool:
    """Return whether the row assigned the record to its present holder, with the present lock."""
    is_its_lock = append_ms + row["lock_duration_ms"] == held.deadline_ms
    return is_its_lock and row["member_id"] == held.holder and any(f <= offset <= last for f, last in row["ranges"])


def _reserver(row: Mapping[str, Any], requester: str) -> str:
    return reserver_id(requester, row["reservation_epoch"])
