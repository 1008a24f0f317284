"""The gateways of a run, their faults, and their clients, beside the members that use rows."""

from __future__ import annotations

import itertools

from tests.simulation.gateway.gateway_process import SimulatedGateway, Surroundings
from tests.simulation.gateway.gateway_tables import SimulatedStoredGroups
from tests.simulation.wire.wire_administrator import WireAdministrator
from tests.simulation.wire.wire_client import ClientSide
from tests.simulation.wire.wire_habits import Habit
from tests.simulation.wire.wire_member import GOOD, WireMember
from tests.simulation.wire.wire_witness import Witness
from tests.simulation.world import World

#: The mean time between two faults of gateways.
_FAULT_MS = 350_000
_CHECK_MS = 60_000
_FAULTS = ("gateway_killed", "gateway_paused", "gateway_clock", "slow_metadata", "leader_away", "slow_members")


def fleet_of(world: World) -> GatewayFleet | None:
    """Return the run's gateways, if it has some; seeds without any are simulated faster."""
    share = world.random("fleet").choice((0, 0.5, 0.5, 1))
    return GatewayFleet(world, share) if share else None


class GatewayFleet:
    """The gateways, started with the run. `share` of the members and administrators are their clients.

    `side` is the shared state of these clients.
    """

    def __init__(self, world: World, share: float) -> None:
        self._world, self._share = world, share
        self._random = world.random("gateways")
        self._python = world.random("python clients")
        self._python_share = self._python.choice((0, 0, 0.5))
        self._members: list[WireMember] = []
        tables = SimulatedStoredGroups(world.tables)
        around = Surroundings(world.clock, world.trace, world.kafka, world.config, tables, world.weather)
        self.gateways = [
            SimulatedGateway(f"gateway-{at + 1}", around) for at in range(self._random.choice((1, 2, 2, 3)))
        ]
        witness = Witness(
            world.clock,
            world.trace,
            world.kafka,
            world.judge,
            world.session_timeout_ms,
            world.longest_lock_ms,
            world.shortest_lock_ms,
        )
        self.side = ClientSide(
            world.clock, world.trace, world.kafka, world.weather, self.gateways, witness, itertools.count(1)
        )

    def is_next(self) -> bool:
        """Return whether the next member is a client of a gateway."""
        return self._random.random() < self._share

    def member(self, name: str, group_id: str, topics: tuple[str, ...], is_good: bool = False) -> WireMember:
        """Return a share consumer that is not started; a good one accepts all records and stays."""
        is_python = self._python.random() < self._python_share
        found = WireMember(self._world, self.side, name, group_id, topics, GOOD if is_good else None, is_python)
        self._members.append(found)
        return found

    def member_with(self, name: str, group_id: str, topics: tuple[str, ...], habit: Habit) -> WireMember:
        """Return a share consumer of this habit that is not started."""
        self._members.append(found := WireMember(self._world, self.side, name, group_id, topics, habit))
        return found

    def administrator(self, group_id: str) -> WireAdministrator:
        """Return the administrator of a group."""
        return WireAdministrator(self._world, group_id, self.side)

    def start(self) -> None:
        """Start all gateways; a clock may be wrong from the start."""
        for gateway in self.gateways:
            if self._world.has("gateway_clock") and self._random.random() < 0.5:
                gateway.skew_ms = round(self._random.choice((-1, 1)) * self._random.choice((800, 20_000, 3_600_000)))
            gateway.start()
        self._plan()
        self._check()
        self._world.clock.at(self._world.calm_ms, self._calm_down)

    def _plan(self) -> None:
        self._world.clock.after(self._random.expovariate(1 / _FAULT_MS), self._act)

    def _act(self) -> None:
        fault = self._random.choice(_FAULTS)
        if self._world.has(fault):
            if fault == "slow_members":
                self._pause_a_member()
            else:
                self._break(self._random.choice(self.gateways), fault)
        if self._world.clock.now_ms < self._world.calm_ms:
            self._plan()

    def _pause_a_member(self) -> None:
        """Suspend a member, like a debugger or a machine without memory, sometimes beyond its locks and sessions."""
        alive = [member for member in self._members if member.alive]
        if alive:
            self._random.choice(alive).pause(self._until_calm_ms(self._random.choice((3_000, 20_000, 200_000))))

    def _until_calm_ms(self, ms: int) -> int:
        """Return the duration, limited to the end of the last fault."""
        return min(ms, self._world.calm_ms - self._world.clock.now_ms)

    def _break(self, gateway: SimulatedGateway, fault: str) -> None:
        random, clock = self._random, self._world.clock
        if fault == "gateway_killed" and gateway.is_up:
            if random.random() < 0.5:
                gateway.kill()
            else:
                gateway.stop()
            clock.after(random.choice((50, 2_000, 40_000)), lambda: None if gateway.is_up else gateway.start())
        elif fault == "gateway_paused":
            gateway.pause(self._until_calm_ms(random.choice((500, 6_000, 20_000, 60_000))))
        elif fault == "gateway_clock":
            gateway.skew_ms += round(random.uniform(-30_000, 30_000))
        elif fault == "slow_metadata":
            gateway.faults.metadata_lag_ms = random.choice((5_000, 60_000))
            clock.after(random.choice((20_000, 120_000)), lambda: self._heal(gateway))
        else:
            gateway.faults.empty_answer, gateway.faults.lost_answer = random.choice(
                ((0.5, 0.0), (1.0, 0.0), (0.0, 0.3))
            )
            clock.after(random.choice((5_000, 60_000)), lambda: self._heal(gateway))

    @staticmethod
    def _heal(gateway: SimulatedGateway) -> None:
        gateway.faults.metadata_lag_ms = 0
        gateway.faults.empty_answer = gateway.faults.lost_answer = 0.0

    def _calm_down(self) -> None:
        for gateway in self.gateways:
            self._heal(gateway)
            if not gateway.is_up:
                gateway.start()

    def _check(self) -> None:
        self.look_for_errors()
        self._world.clock.after(_CHECK_MS, self._check)

    def end(self) -> None:
        """Report errors, and end the clients that still run."""
        self.look_for_errors()
        for loop in self.side.loops:
            loop.kill()

    def look_for_errors(self) -> None:
        """Report each unhandled error as a violation, whatever its effect."""
        problems = [problem for loop in self.side.loops for problem in loop.problems]
        problems += [problem for gateway in self.gateways for problem in gateway.problems]
        for problem in problems:
            self._world.judge.violate("error in a gateway or a client", repr(problem.get("exception") or problem))
