"""The judge finds defects of reservations, planted in the code that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from sharegroup.gateway.reservations.partition_reservation import PartitionReservation
from sharegroup.gateway.reservations.reserved_delivery import ReservedDelivery
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.protocol.rows.reservation_requests import AssignRequest
from sharegroup.types import AcquiredRange, OffsetRange
from tests.simulation.run import run
from tests.simulation.world import RESERVATIONS

pytestmark = pytest.mark.thorough

FOREVER_MS = 2**60


def records_are_sent_before_their_row_is_durable(patch: pytest.MonkeyPatch) -> None:
    async def deliver(
        delivery: ReservedDelivery,
        _partition: Any,
        member: MemberPartition,
        row: AssignRequest,
        appended: asyncio.Future[int],
        read_committed: bool,
    ) -> None:
        appended.add_done_callback(lambda done: done.exception())
        acquired = [AcquiredRange(first, last, 1) for first, last in row.ranges]
        member.add_assigned(acquired, delivery._job.now_ms() + row.lock_duration_ms, read_committed)

    patch.setattr(ReservedDelivery, "_deliver", deliver)


def leases_are_ignored(patch: pytest.MonkeyPatch) -> None:
    def all_ranges(reservation: PartitionReservation, end_offset: int, _now_ms: int) -> list[OffsetRange]:
        ranges = reservation._reserved.items(None, end_offset - 1) if end_offset > 0 else ()
        return [OffsetRange(first, last) for first, last, _ in ranges]

    patch.setattr(PartitionReservation, "assignable_ranges", all_ranges)
    patch.setattr(PartitionReservation, "lease_end_ms", property(lambda _: FOREVER_MS))
    patch.setattr(PartitionReservation, "is_over", lambda *_: False)


class Planted(NamedTuple):
    """A defect, the faults that show it, and a seed in which they do."""

    plant: Callable[[pytest.MonkeyPatch], None]
    faults: frozenset[str]
    seed: int


PLANTED = [
    Planted(records_are_sent_before_their_row_is_durable, frozenset(("bad_network", "leader_away")), 0),
    Planted(leases_are_ignored, frozenset(("gateway_paused", "bad_network")), 8),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.plant.__name__)
def test_a_planted_defect_of_reservations_is_found(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = planted.faults | {RESERVATIONS}
    assert run(planted.seed, faults=faults).violations == ()
    planted.plant(monkeypatch)
    assert run(planted.seed, faults=faults).violations
