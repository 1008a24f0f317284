"""What goes wrong with a run's gateways and their members is over when the run is calm."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.simulation.gateway.gateway_fleet import GatewayFleet
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.world import World, make_world

Act = Callable[[GatewayFleet], None]


def pause_the_gateways(fleet: GatewayFleet) -> None:
    for gateway in fleet.gateways:
        fleet._break(gateway, "gateway_paused")


def pause_the_members(fleet: GatewayFleet) -> None:
    for _ in range(10):
        fleet._pause_a_member()


def kill_the_gateways(fleet: GatewayFleet) -> None:
    for gateway in fleet.gateways:
        fleet._break(gateway, "gateway_killed")


@pytest.fixture
def new_fleet() -> Iterator[Callable[[World], GatewayFleet]]:
    """Makes gateways of a world, which end with the test."""
    made: list[GatewayFleet] = []

    def make(world: World) -> GatewayFleet:
        made.append(GatewayFleet(world, 1))
        return made[-1]

    yield make
    for fleet in made:
        fleet.end()


def loops(fleet: GatewayFleet) -> list[VirtualLoop]:
    return [*fleet.side.loops, *(loop for gateway in fleet.gateways for loop in gateway._loops)]


@pytest.mark.parametrize("act", [pause_the_gateways, pause_the_members, kill_the_gateways])
@pytest.mark.parametrize("seed", range(3))
def test_what_begins_just_before_the_calm_ends_with_it(
    seed: int, act: Act, new_fleet: Callable[[World], GatewayFleet]
) -> None:
    world = make_world(seed, 0.2, ())
    world.kafka.create_topic("orders", 1)
    fleet = new_fleet(world)
    fleet.start()
    for number in range(3):
        fleet.member(f"m{number}", "g", ("orders",)).start()
    world.clock.run_until(world.calm_ms - 100)
    act(fleet)
    assert any(loop.is_paused for loop in loops(fleet)) or not all(gateway.is_up for gateway in fleet.gateways)
    world.clock.run_until(world.calm_ms)
    assert [loop for loop in loops(fleet) if loop.is_paused] == []
    assert [gateway.name for gateway in fleet.gateways if not gateway.is_up] == []


def test_no_fault_begins_when_the_run_is_calm(new_fleet: Callable[[World], GatewayFleet]) -> None:
    world = make_world(1, 0.2, ("gateway_killed", "gateway_paused", "slow_members"), keep_trace=True)
    fleet = new_fleet(world)
    fleet.start()
    world.clock.run_until(world.calm_ms)
    before = len(world.trace.lines)
    for _ in range(50):
        fleet._act()
    assert [line.text for line in world.trace.lines[before:]] == []
