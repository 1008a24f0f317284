"""Drives a `Shard` as Spark does: rows as strings, the state as text between batches, outputs through their JSON.

Times are milliseconds after an arbitrary start, `T0`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sharegroup.config import Config
from sharegroup.core.operators import rows
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.managed_partition import ManagedPartition
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.shard_state import ShardState
from sharegroup.core.operators.share_partition.share_partition_operator import SharePartitionOperator
from sharegroup.protocol.rows.reservation_requests import (
    AssignRequest,
    ReassignRequest,
    ReserveRequest,
    UnreserveRequest,
)
from sharegroup.protocol.rows.share_partition_requests import (
    ACKNOWLEDGE,
    FETCH,
    AcknowledgeRequest,
    ConfigureRequest,
    FenceMemberRequest,
    FetchRequest,
    ReleaseMemberRequest,
    SharePartitionRequest,
    UnacquireRequest,
)
from sharegroup.types import LAST_ALTERED_MS, AcknowledgementBatch, AcquiredRange, OffsetRange

GROUP = "g"
TOPIC = "orders"
TOPIC_ID = "id"
KEY = f"{GROUP}\t{TOPIC_ID}\t0"
T0 = 1_700_000_000_000
LOCK_MS = 30_000
REWRITE_MS = 12 * 3600 * 1000
COLD_MS = 300_000
LEASE_MS = 10_000
GATEWAY = "gateway-1"


class ShardDriver:
    """A key of the operator. With `restarts`, the shard is dumped and restored after every batch, as in Spark."""

    def __init__(self, records: SnapshotRules | None = None, restarts: bool = True) -> None:
        self._records = records or SnapshotRules()
        self._restarts = restarts
        self._shard = self._restored(None)
        self._next_offset = 0
        self.state: str | None = None

    def _restored(self, state: str | None) -> SharePartitionOperator:
        return SharePartitionOperator(KEY, GROUP, TOPIC_ID, self._records, state)

    def line(self, request: SharePartitionRequest | bytes, at: int, kafka_partition: int = 0) -> str:
        """Return a request's row, appended `at` ms after T0, after all earlier ones."""
        value = request if isinstance(request, bytes) else request.encode()
        self._next_offset += 1
        return rows.encode_row(rows.REQUEST, f"{kafka_partition}\t{self._next_offset - 1}\t{T0 + at}\t{value.decode()}")

    def batch(self, *lines: str, at: int, earliest: int | None = None) -> Output:
        """Run a micro-batch at the time `at`; `earliest` is the time of the slowest broker clock."""
        if self._restarts:
            self._shard = self._restored(self.state)
        output = self._shard.run(lines, T0 + at, T0 + (at if earliest is None else earliest))
        self.state = self._shard.dump()
        return Output.decode(output.encode())

    def send(self, *requests: SharePartitionRequest, at: int) -> Output:
        """Run a micro-batch of requests that were all appended at its time."""
        return self.batch(*[self.line(request, at) for request in requests], at=at)

    def led(self, partition: int = 0) -> ManagedPartition:
        """Return the share-partition in the operator's state."""
        led = ShardState(GROUP, TOPIC_ID, self.state).get(partition)
        assert led is not None
        return led

    def window(self, partition: int = 0) -> list[list[Any]]:
        """[first offset, last offset, state, delivery count, member, lock deadline] of what is in flight."""
        batches = self.led(partition).window.state_batches()
        return [
            [first, last, state.name, count, member, None if deadline is None else deadline - T0]
            for first, last, state, count, member, deadline in batches
        ]


def known(shard: ShardDriver) -> dict[str, Any]:
    """Return the JSON of the state, without the pieces of windows."""
    found: dict[str, Any] = json.loads((shard.state or "").partition("\n")[0])
    return found


# -- rows of the source ------------------------------------------------------------------------------------------------


def config(altered: int | None = None, **values: object) -> str:
    """Return a config row; a request altered the config last `altered` ms after T0."""
    last = {} if altered is None else {LAST_ALTERED_MS: T0 + altered}
    return rows.encode_row(rows.CONFIG, json.dumps(Config().group_config(GROUP).to_json() | values | last))


def fences(*joined: tuple[str, str, int]) -> str:
    """Return a fences row: (member, process that replaced another one, when in ms after T0)."""
    return rows.encode_row(rows.FENCES, json.dumps([[member, process, T0 + at] for member, process, at in joined]))


def load(start_offset: int = 0, log: tuple[int, ...] | None = (0, 0), partition: int = 0, **values: object) -> str:
    """Return a load of a share-partition without state; `log` has the fields of `PartitionLog`, None if unknown."""
    row = {
        "topic": TOPIC,
        "partition": partition,
        "state_epoch": 1,
        "initializing": False,
        "start_offset": start_offset,
        "log": log,
        "header": None,
        "batches": [],
    }
    return rows.encode_row(rows.LOAD, json.dumps([row | values]))


def log(end: int, start: int = 0, partition: int = 0, stable: int | None = None, has_topic_id: bool = True) -> str:
    """Return a row with the new ends of the log."""
    return rows.encode_row(rows.LOG, json.dumps([[partition, start, end, stable, has_topic_id]]))


def gone() -> str:
    """Return the row of a deleted topic."""
    return rows.encode_row(rows.TOPIC_DELETED, json.dumps(TOPIC))


def tick(at: int) -> str:
    """Return a tick: all requests appended before `at` have been read."""
    return rows.encode_row(rows.TICK, str(T0 + at))


def leases_over(*gateways: str) -> str:
    return rows.encode_row(rows.LEASES_OVER, json.dumps(gateways))


def unload(*partitions: int) -> str:
    """Return a row that unloads these share-partitions."""
    return rows.encode_row(rows.UNLOAD, json.dumps(partitions))


# -- requests ----------------------------------------------------------------------------------------------------------


def fetch(
    request_id: str, member: str = "m1", max_records: int = 10, max_wait_ms: int = 5_000, partition: int = 0,
    epoch: int = -1,
) -> FetchRequest:  # fmt: skip
    named = request_id, GROUP, TOPIC, TOPIC_ID, partition, member, epoch, "me"
    return FetchRequest(*named, max_records=max_records, max_wait_ms=max_wait_ms)


def acknowledge(
    request_id: str, *batches: tuple[int, int, int], member: str = "m1", partition: int = 0, epoch: int = -1,
    grants: Sequence[tuple[int, int, int]] = (),
) -> AcknowledgeRequest:  # fmt: skip
    """Return an acknowledgement of (first offset, last offset, type) for grants of (first, last, count)."""
    named = request_id, GROUP, TOPIC, TOPIC_ID, partition, member, epoch, "me"
    return AcknowledgeRequest(
        *named,
        acquired=tuple(AcquiredRange(*grant) for grant in grants),
        is_renew_ack=any(kind == 4 for _, _, kind in batches),
        batches=tuple(AcknowledgementBatch(first, last, (kind,)) for first, last, kind in batches),
    )


def unacquire(request_id: str, first: int, last: int, member: str = "m1") -> UnacquireRequest:
    named = request_id, GROUP, TOPIC, TOPIC_ID, 0, member, -1, "me"
    return UnacquireRequest(*named, ranges=(OffsetRange(first, last),))


def release(request_id: str, member: str = "m1", epoch: int = -1, partition: int = 0) -> ReleaseMemberRequest:
    return ReleaseMemberRequest(request_id, GROUP, TOPIC, TOPIC_ID, partition, member, epoch, "me")


def fence(incarnation: str, joined: int = 0, member: str = "m1", partition: int = 0) -> FenceMemberRequest:
    """Return the request that fences the member's previous process; the new one joined `joined` ms after T0."""
    return FenceMemberRequest(
        f"fence-{incarnation}", GROUP, TOPIC, TOPIC_ID, partition, member,
        incarnation_id=incarnation, joined_ms=T0 + joined,
    )  # fmt: skip


def configure(partition: int = 0, altered: int = 0, **values: object) -> ConfigureRequest:
    """Return the request of a config change, `altered` ms after T0."""
    values = Config().group_config(GROUP).to_json() | values
    return ConfigureRequest("c", GROUP, TOPIC, TOPIC_ID, partition, "", config=values, altered_ms=T0 + altered)


_SHARE_PARTITION = GROUP, TOPIC, TOPIC_ID, 0


def reserve(
    request_id: str, records: int = 10, gateway: str = GATEWAY, epoch: int = 1, lease_ms: int = LEASE_MS,
) -> ReserveRequest:  # fmt: skip
    named = request_id, *_SHARE_PARTITION, "", -1, gateway
    return ReserveRequest(*named, records=records, lease_ms=lease_ms, reservation_epoch=epoch)


def assign(
    first: int, last: int, member: str = "m1", gateway: str = GATEWAY, epoch: int = 1, member_epoch: int = -1,
    lock_ms: int = LOCK_MS, valid_until: int = 10**9,
) -> AssignRequest:  # fmt: skip
    named = f"assign-{first}", *_SHARE_PARTITION, member, member_epoch
    ranges = (OffsetRange(first, last),)
    return AssignRequest(
        *named,
        ranges=ranges,
        requester=gateway,
        reservation_epoch=epoch,
        lock_duration_ms=lock_ms,
        valid_until_ms=T0 + valid_until,
    )


def reassign(
    first: int, last: int, count: int = 1, member: str = "m1", to: str = "m2", gateway: str = GATEWAY,
    lock_ms: int = LOCK_MS, valid_until: int = 10**9, incarnation: str | None = None,
) -> ReassignRequest:  # fmt: skip
    """Return the notice that `member` has released first..last, and that the records were sent to the member `to`."""
    named = f"reassign-{first}", *_SHARE_PARTITION, member
    acquired = (AcquiredRange(first, last, count),)
    return ReassignRequest(
        *named, acquired=acquired, to_member_id=to, requester=gateway, lock_duration_ms=lock_ms,
        valid_until_ms=T0 + valid_until, to_incarnation_id=incarnation,
    )  # fmt: skip


def unreserve(*ranges: tuple[int, int], gateway: str = GATEWAY, epoch: int = 1) -> UnreserveRequest:
    named = tuple(OffsetRange(*each) for each in ranges) or None
    return UnreserveRequest("u", *_SHARE_PARTITION, "", ranges=named, requester=gateway, reservation_epoch=epoch)


# -- what comes out ----------------------------------------------------------------------------------------------------


def answered(
    kind: str, request_id: str, member: str = "m1", acquired: list[list[int]] | None = None, until: int | None = None,
    partition: int = 0, error: tuple[int, str] = (0, ""),
) -> dict[str, Any]:  # fmt: skip
    """Return a response row of a group with the default config; `until` is when the locks end."""
    has_ranges = kind in (FETCH, ACKNOWLEDGE)
    ranges: dict[str, Any] = {"acquired": acquired or [], "lock_deadline_ms": -1 if until is None else T0 + until}
    if kind == FETCH and any(delivery_count > 1 for _, _, delivery_count in acquired or ()):
        ranges["delivery_count_limit"] = Config().group_config(GROUP).delivery_count_limit
    return {
        "type": kind,
        "id": request_id,
        "reply_to": "me",
        "group_id": GROUP,
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "partition": partition,
        "member_id": member,
        "error_code": error[0],
        "error_message": error[1] or None,
        **(ranges if has_ranges else {}),
    }


def transition(
    first: int, last: int, states: str, cause: str, count: int, member: str | None = "m1", until: int | None = None,
    partition: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Return a row of delivery_log; `states` is FROM>TO."""
    from_state, to_state = states.split(">")
    return {
        "group_id": GROUP,
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "partition": partition,
        "first_offset": first,
        "last_offset": last,
        "from_state": from_state,
        "to_state": to_state,
        "cause": cause,
        "member_id": member,
        "delivery_count": count,
        "lock_deadline": None if until is None else (T0 + until) * 1000,
    }


def durable(
    record_type: str, epochs: tuple[int, int], offsets: tuple[int, int], complete: int,
    *batches: tuple[int, int, int, int, str | None, int | None], partition: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Return a row of share_group_state: (snapshot, state) epochs, (start, end) offsets, batches with their holders."""
    return {
        "group_id": GROUP,
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "partition": partition,
        "record_type": record_type,
        "snapshot_epoch": epochs[0],
        "state_epoch": epochs[1],
        "start_offset": offsets[0],
        "end_offset": offsets[1],
        "delivery_complete_count": complete,
        "state_batches": [
            {
                "first_offset": first,
                "last_offset": last,
                "delivery_state": state,
                "delivery_count": count,
                "member_id": member,
                "lock_deadline": None if until is None else (T0 + until) * 1000,
            }
            for first, last, state, count, member, until in batches
        ],
    }
