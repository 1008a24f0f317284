"""The judge finds defects of reservations, planted in the code that runs."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pytest

from sharegroup.core.operators.share_partition import reserves
from sharegroup.core.operators.share_partition.demands import Demands
from sharegroup.core.operators.share_partition.managed_partition import ManagedPartition
from sharegroup.core.operators.share_partition.shard_state import ShardState
from sharegroup.core.share_partition import Outcome, SharePartition
from sharegroup.core.share_partition.reservation import requester_of, reservation_epoch_of
from sharegroup.gateway.reservations.gateway_lease import GatewayLease
from sharegroup.gateway.reservations.reserved_delivery import ReservedDelivery
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.job.clock.leases_by_gateway import LeasesByGateway
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReserveRequest
from sharegroup.types import AcquiredRange, Transition
from tests.simulation.gateway.careless_gateways import CarelessGateways
from tests.simulation.gateway.gateway_fleet import GatewayFleet
from tests.simulation.run import run
from tests.simulation.wire.wire_member import GOOD
from tests.simulation.world import RESERVATIONS
from tests.unit.simulation.stage import TOPIC, Stage

pytestmark = pytest.mark.long

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


def released_records_keep_their_delivery_count(patch: pytest.MonkeyPatch) -> None:
    reassign = SharePartition.reassign

    def without_count(
        window: SharePartition, released: Iterable[Transition], member_id: str, deadline_ms: int
    ) -> Outcome:
        lower = [transition._replace(delivery_count=transition.delivery_count - 1) for transition in released]
        return reassign(window, lower, member_id, deadline_ms)

    patch.setattr(SharePartition, "reassign", without_count)


def released_records_are_sent_although_the_job_only_releases_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "reassign", lambda *_: Outcome())


def leases_are_ignored(patch: pytest.MonkeyPatch) -> None:
    def begin_forever(lease: GatewayLease, _appended: object) -> None:
        lease.end_ms = FOREVER_MS
        lease._on_begin()

    patch.setattr(GatewayLease, "_on_appended", begin_forever)


def epochs_are_ignored(patch: pytest.MonkeyPatch) -> None:
    assign = ManagedPartition.assign

    def in_any_epoch(managed: ManagedPartition, request: AssignRequest, append_ms: int) -> None:
        for reserver in managed.window.reservers():
            if requester_of(reserver) == request.requester:
                request = dataclasses.replace(request, reservation_epoch=reservation_epoch_of(reserver))
        assign(managed, request, append_ms)

    patch.setattr(ManagedPartition, "assign", in_any_epoch)


def reservations_survive_a_reset(patch: pytest.MonkeyPatch) -> None:
    begin_again = SharePartition._begin_again

    def but_reserved(window: SharePartition, start_offset: int) -> None:
        reserved = [(*span, held) for *span, held in window._window.items(start_offset, None) if held.is_reserved]
        begin_again(window, start_offset)
        for first, last, held in reserved:
            window._window.assign(first, last, held)

    patch.setattr(SharePartition, "_begin_again", but_reserved)


def leases_of_dead_gateways_are_renewed(patch: pytest.MonkeyPatch) -> None:
    apply = LeasesByGateway.apply

    def renewing_all(leases: LeasesByGateway, gateways: Any, ends_ms: Mapping[str, int], now_ms: int) -> None:
        last_ms = max(ends_ms.values(), default=0)
        apply(leases, gateways, dict.fromkeys([*leases.ends_ms(), *ends_ms], last_ms), now_ms)

    patch.setattr(LeasesByGateway, "apply", renewing_all)


def renewals_without_reservations_are_lost(patch: pytest.MonkeyPatch) -> None:
    """The row of the next reservation may name an earlier end, because it was sent before the renewal was confirmed."""

    def of_reservers(leases: LeasesByGateway, gateways: Any, ends_ms: Mapping[str, int], now_ms: int) -> None:
        for key, found in gateways.items():
            leases._set(key, tuple(found))
        held = leases._keys.keys()
        known = {gateway: end_ms for gateway, end_ms in leases._ends_ms.items() if gateway in held}
        leases._ends_ms = {gateway: max(known.get(gateway, 0), ends_ms.get(gateway, 0)) for gateway in held}

    patch.setattr(LeasesByGateway, "apply", of_reservers)


def one_gateway_reserves_nothing(patch: pytest.MonkeyPatch) -> None:
    reserve = reserves._reserve

    def for_the_first(state: ShardState, managed: ManagedPartition, request: ReserveRequest) -> None:
        if request.reply_to.startswith("gateway-1"):
            reserve(state, managed, request)

    patch.setattr(reserves, "_reserve", for_the_first)


class Planted(NamedTuple):
    """A defect, the faults and seeds of which one shows it, and the rule by which it must be found ("": any)."""

    plant: Callable[[pytest.MonkeyPatch], None]
    faults: frozenset[str]
    seeds: tuple[int, ...]
    rule: str = ""
    hours: float = 1.0

    def violated_rules(self) -> list[str]:
        """Run the seeds, and return the rules that are violated."""
        runs = (run(seed, self.hours, self.faults | {RESERVATIONS}) for seed in self.seeds)
        return [violation.rule for found in runs for violation in found.violations]


PLANTED = [
    Planted(records_are_sent_before_their_row_is_durable, frozenset(("bad_network", "leader_away")), (0,)),
    Planted(leases_are_ignored, frozenset(("gateway_paused", "bad_network")), (8,)),
    Planted(released_records_keep_their_delivery_count, frozenset(), (3,), "count below deliveries", hours=0.4),
    Planted(
        released_records_are_sent_although_the_job_only_releases_them, frozenset(), (3,), "held by another", hours=0.4
    ),
    Planted(epochs_are_ignored, frozenset(), (4, 5), "an assignment is for one reservation", hours=0.4),
    Planted(leases_of_dead_gateways_are_renewed, frozenset(), (0, 8), "a reservation ends with its gateway", hours=0.4),
    Planted(renewals_without_reservations_are_lost, frozenset(), (153,), "count below deliveries"),
    Planted(one_gateway_reserves_nothing, frozenset(), (14,), "gateways take turns", hours=0.2),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.plant.__name__)
def test_a_planted_defect_of_reservations_is_found(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    assert planted.violated_rules() == []
    planted.plant(monkeypatch)
    found = planted.violated_rules()
    assert planted.rule in found if planted.rule else found


@pytest.mark.parametrize("is_planted", [False, True])
def test_a_reservation_that_survives_a_reset_is_found(is_planted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last member leaves, a gateway dies with reserved offsets, and the offsets are reset within the lease."""
    if is_planted:
        reservations_survive_a_reset(monkeypatch)
    stage = Stage(1, faults=(RESERVATIONS,))
    member = stage.group_from_the_start("group-1")
    stage.produce(5)
    stage.run(30)
    (key,) = stage.world.judge.known()
    member.leave()
    stage.run(310)  # until the fetch of the member is over, because nothing is reserved while a row member waits
    CarelessGateways(stage.world).reserve(key)
    stage.run(2)
    stage.administrator("group-1").alter_offsets(TOPIC)
    stage.run(30)
    assert stage.said("answered 0 to alter_offsets") == 1
    member.start()
    stage.run(60)
    rules = {violation.rule for violation in stage.violations()}
    assert rules == ({"a reservation ends at a reset"} if is_planted else set())


def fetches_outlive_their_gateways(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemberPartition, "_cancel_demand", lambda _: None)
    patch.setattr(Demands, "remove_requesters", lambda *_: ())


@pytest.mark.parametrize("is_planted", [False, True])
def test_a_fetch_that_outlives_its_gateway_is_found(is_planted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member gives up partitions, which another member of its gateway then fetches. Later the gateway is killed.

    If a fetch for the first member still waited, it would take records that nobody gets until their locks end.
    """
    if is_planted:
        fetches_outlive_their_gateways(monkeypatch)
    stage = Stage(1, partitions=6, faults=(RESERVATIONS,))
    fleet = GatewayFleet(stage.world, 1.0)
    fleet.start()
    assert len(fleet.gateways) > 1
    for name in ("member-1", "member-2"):
        member = fleet.member_with(name, "group-1", (TOPIC,), GOOD)
        member.start()
        assert member._client is not None
        member._client.move(0)
        stage.run(40)
        for partition in range(6):
            stage.produce(10, partition)
        stage.run(20)
    fleet.gateways[0].kill()
    for _ in range(10):
        for partition in range(6):
            stage.produce(1, partition)
        stage.run(1)
    stage.run(3)  # less than a lock takes to end
    accepted = [row for row in stage.log() if row["to_state"] == "ACKNOWLEDGED"]
    finished = sum(row["last_offset"] - row["first_offset"] + 1 for row in accepted)
    assert (finished == 6 * 30) is not is_planted
    assert stage.violations() == []
