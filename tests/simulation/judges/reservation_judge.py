"""The checks of reservations, at the end: `share_group_state` compared with the rows that gateways have appended.

- an assignment has an effect only on the reservation, and in the reservation epoch, that its row names;
- a reservation ends with the life of its share-partition (an offset reset, a deletion);
- a reservation ends with its gateway.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sharegroup.core.share_partition.reservation import requester_of, reserver_id
from sharegroup.protocol.rows.lease_requests import RENEW_LEASES
from sharegroup.protocol.rows.reservation_requests import ASSIGN, RESERVE
from sharegroup.storage.schemas import SHARE_GROUP_STATE
from sharegroup.types import RecordState
from tests.simulation.members import table_adapter
from tests.simulation.members.table_adapter import TableKey
from tests.simulation.world import PARTITION_REQUESTS, RESERVATIONS, World

#: The newest row of each gateway with reservations is younger than this, in the end, and before that if nothing delays
#: the job: two leases, and some batches.
_ALIVE_MS = 60_000
#: Faults that do not delay the job.
_WITHOUT_DELAY = frozenset(
    (
        RESERVATIONS, "gateway_killed", "gateway_paused", "gateway_moves", "slow_members", "dying_members",
        "leaving_members", "static_members", "alter_configs", "alter_offsets", "delete_offsets", "delete_group",
    )
)  # fmt: skip


class _Held(NamedTuple):
    """The holder of a record in flight, the end of its lock (-1: reserved), and how often it was delivered."""

    holder: str
    deadline_ms: int
    delivery_count: int


class _Requests(NamedTuple):
    """The assignments by share-partition as (append time, row), and the newest time at which a gateway was alive."""

    assigns: dict[TableKey, list[tuple[int, dict[str, Any]]]]
    alive_ms: dict[str, int]


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
        self._judge, self._key, self._now_ms = world.judge, key, world.clock.now_ms
        self._is_delayed = not world.faults <= _WITHOUT_DELAY
        self._assigns, self._alive_ms = requests.assigns[key], requests.alive_ms
        self._held: dict[int, _Held] = {}

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
            if not self._is_delayed:
                self._check_gateways(now, round(row["time"].timestamp() * 1000))
            self._held, state_epoch = now, max(state_epoch, row["state_epoch"])  # an update has -1
        self._check_gateways(self._held, self._now_ms)

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

    def _check_gateways(self, now: Mapping[int, _Held], now_ms: int) -> None:
        for holder in sorted({held.holder for held in now.values() if not held.delivery_count}):
            alive_ms = self._alive_ms.get(requester_of(holder), 0)
            if now_ms - alive_ms > _ALIVE_MS:
                text = f"{holder} holds reservations, and has sent no row for {now_ms - alive_ms} ms"
                self._judge.violate("a reservation ends with its gateway", text, self._key.named())


def _requests(records: Iterable[tuple[int, Any]]) -> _Requests:
    found = _Requests(defaultdict(list), {})
    for append_ms, record in records:
        row = json.loads(record.value)
        kind = row.get("type")
        if kind == ASSIGN:
            found.assigns[table_adapter.of_row(row)].append((append_ms, row))
        if kind in (RESERVE, RENEW_LEASES):
            gateway = row["reply_to"] if kind == RESERVE else row["requester"]
            found.alive_ms[gateway] = max(append_ms, found.alive_ms.get(gateway, 0))
    return found


def _holders(row: Mapping[str, Any]) -> Iterator[tuple[int, _Held]]:
    for batch in row["state_batches"] or ():
        if batch["delivery_state"] == RecordState.ACQUIRED and batch["member_id"]:
            deadline = batch["lock_deadline"]
            deadline_ms = -1 if deadline is None else round(deadline.timestamp() * 1000)
            held = _Held(batch["member_id"], deadline_ms, batch["delivery_count"])
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
