"""The *handover*: data that a query passes to its Python source, which is another process on the driver's machine.

Each batch sends its changes (`HandoverChange`), and the source applies them to its `Handover`. The cost of a change
depends only on the number of keys in the batch. `handover_file` transports the changes. It is harmless if a restart
loses them: the source then sends one tick (a row with the time) to every key, and the batch that reads these ticks
sends the data of all keys again.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sharegroup.job.clock.deadlines import Deadlines
from sharegroup.job.clock.leases_by_gateway import LeasesByGateway
from sharegroup.kafka_clients.job_clock import ClockReading
from sharegroup.protocol.rows.reservation_requests import MAX_LEASE_MS
from sharegroup.types import WaitsFor


class HandoverChange(NamedTuple):
    """The data that a batch passes to the source of its query. A key is an operator key: a shard or a group.

    Attributes:
        deadlines: by key, the time in ms at which the key needs a tick; None if it no longer needs a tick.
        waiting: by key, what its pending fetches wait for.
        positions: by partition of the request topic, the next unread offset.
        clock: the newest reading of the brokers' time; None if there is no new one.
        reservers: by key, the gateways that hold reservations there (offsets reserved for their members).
        leases: by gateway, a time in ms until which its lease certainly lasts.
        now_ms: the time of the batch.
    """

    deadlines: Mapping[str, int | None] = {}
    waiting: Mapping[str, WaitsFor] = {}
    positions: Mapping[int, int] = {}
    clock: ClockReading | None = None
    reservers: Mapping[str, Sequence[str]] = {}
    leases: Mapping[str, int] = {}
    now_ms: int = 0


class Handover:
    """The data that a source has received from its query: the changes (`HandoverChange`) of all batches, combined.

    `positions` has an offset for each partition of the request topic. Committed batches have read all requests before
    these offsets.
    """

    def __init__(
        self,
        deadlines: Mapping[str, int] | None = None,
        waiting: Mapping[str, WaitsFor] | None = None,
        positions: Mapping[int, int] | None = None,
        clock: ClockReading | None = None,
    ) -> None:
        self.deadlines = Deadlines(deadlines or {})
        self.waiting = dict(waiting or {})
        self.positions = dict(positions or {})
        self.clock = clock
        self.leases = LeasesByGateway()

    def brokers_ms(self, steady_ms: int) -> int:
        """Return a time (ms) that all brokers' clocks had reached when the steady clock was at `steady_ms`.

        The result is 0 while the brokers' time is not known.
        """
        return 0 if self.clock is None else self.clock.earliest_at(steady_ms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handover) and self.as_change() == other.as_change()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Handover{tuple(self.as_change())}"

    def apply(self, change: HandoverChange) -> None:
        """Apply a batch's changes. Keys without pending fetches are removed from `waiting`."""
        for key, deadline_ms in change.deadlines.items():
            self.deadlines.set(key, deadline_ms)
        for key, waits in change.waiting.items():
            if waits:
                self.waiting[key] = WaitsFor(waits)
            else:
                self.waiting.pop(key, None)
        self.positions.update(change.positions)
        self.leases.apply(change.reservers, change.leases, change.now_ms)
        if change.clock is not None:
            self.clock = change.clock

    def changes_in(self, change: HandoverChange) -> HandoverChange:
        """Return the part of a change that differs from the current values."""
        return HandoverChange(
            {key: deadline for key, deadline in change.deadlines.items() if self.deadlines.get(key) != deadline},
            {key: waits for key, waits in change.waiting.items() if self.waiting.get(key, WaitsFor.NOTHING) != waits},
            {p: offset for p, offset in change.positions.items() if self.positions.get(p) != offset},
            change.clock,
            {key: found for key, found in change.reservers.items() if self.leases.gateways_at(key) != tuple(found)},
            {gateway: end for gateway, end in change.leases.items() if self.leases.end_ms(gateway) < end},
            change.now_ms,
        )

    def as_change(self) -> HandoverChange:
        """Return the change that turns an empty handover into this one."""
        waiting = dict(sorted(self.waiting.items()))
        return HandoverChange(
            self.deadlines.as_dict(), waiting, dict(self.positions), self.clock,
            self.leases.gateways(), self.leases.ends_ms(), -MAX_LEASE_MS,  # no lease is unknown
        )  # fmt: skip
