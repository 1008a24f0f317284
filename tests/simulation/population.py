"""The groups of a run with their administrators and members, who come and go until the run is calm."""

from __future__ import annotations

import dataclasses
import functools

from tests.simulation.administrators import Administrator
from tests.simulation.gateway.gateway_fleet import GatewayFleet
from tests.simulation.members.row_member import Habits, RowMember
from tests.simulation.spark.spark_fleet import GOOD, SparkFleet
from tests.simulation.spark.spark_member import SparkMember
from tests.simulation.wire.wire_habits import HABITS
from tests.simulation.wire.wire_member import GOOD as WELL_BEHAVED
from tests.simulation.wire.wire_member import WireMember
from tests.simulation.world import RELEASING_GROUP, RESERVATIONS, World

AnyMember = RowMember | SparkMember | WireMember
_RESETS = ("earliest", "earliest", "latest", "by_duration:PT10M", "")

#: The mean time between two actions of an administrator.
_ADMIN_EVERY_MS = 400_000


class Group:
    """One group: its administrator and its members. A group that only `visits_ms` has a single member."""

    def __init__(
        self,
        world: World,
        fleet: GatewayFleet | None,
        spark: SparkFleet,
        group_id: str,
        topics: tuple[str, ...],
        visits_ms: int = 0,
    ) -> None:
        self._world, self.group_id, self._topics, self._visits_ms = world, group_id, topics, visits_ms
        self._fleet, self._spark = fleet, spark
        self._clock = world.clock
        self._random = world.random(f"group {group_id}")
        by_wire = fleet is not None and fleet.is_next()
        self._admin = fleet.administrator(group_id) if fleet and by_wire else Administrator(world, group_id)
        self._members: list[AnyMember] = []
        self._made = 0

    def start(self) -> None:
        """Set configs; members join after the response, or a moment later."""
        reset = self._random.choice(_RESETS)
        if reset:
            configs: dict[str, str | None] = {"share.auto.offset.reset": reset}
            if self._world.has("transactions") and self._random.random() < 0.5:
                configs["share.isolation.level"] = "read_committed"
            self._admin.set_configs(configs, lambda ok: self._come_soon())
        else:
            self._come_soon()
        if not self._visits_ms:
            self._administer()

    def calm_down(self) -> None:
        """Let all members leave or die, and start a good member that stays."""
        for member in self._members:
            member.leave()
        good = Habits(max_records=500, work_ms=(20, 200), release=0, reject=0, gives_back=0)
        self._member("good", self._topics, good, is_good=True).start()

    def _come_soon(self) -> None:
        for _ in range(1 if self._visits_ms else self._random.choice((1, 1, 2, 3))):
            self._clock.after(self._random.choice((0, 50, 600, 5_000)), self._come)

    def _come(self) -> None:
        if self._clock.now_ms >= self._world.calm_ms:
            return
        self._made += 1
        topics = self._topics if self._random.random() < 0.8 else (self._random.choice(self._topics),)
        member = self._member(str(self._made), topics, self._habits())
        self._members.append(member)
        member.start()
        if self._visits_ms:
            self._clock.after(self._visits_ms, member.leave)
        else:
            self._plan_end(member)

    def _member(self, name: str, topics: tuple[str, ...], habits: Habits, is_good: bool = False) -> AnyMember:
        """Return a member with these habits that uses rows, a Spark job, or a client of a gateway."""
        name = f"{self.group_id}-{name}"
        if self._fleet is not None and self._fleet.is_next():
            return self._fleet.member(name, self.group_id, topics, is_good)
        if self._spark.is_next():
            return self._spark.member(name, self.group_id, topics, GOOD if is_good else None)
        if not is_good and self._world.has("static_members") and self._world.random("names").random() < 0.6:
            habits = dataclasses.replace(habits, is_static=True)
        return RowMember(self._world, name, self.group_id, topics, habits)

    def _habits(self) -> Habits:
        work_ms = self._random.choice(((20, 500), (50, 5_000), (2_000, 14_000)))
        if "slow_members" in self._world.faults and self._random.random() < 0.4:
            work_ms = 5_000, 60_000
        return Habits(
            max_records=self._random.choice((5, 20, 100, 500, 500)),
            work_ms=work_ms,
            release=self._random.choice((0, 0.05, 0.2)),
            reject=self._random.choice((0, 0.05)),
            renews=self._random.random() < 0.3,
            gives_back=self._random.choice((0, 0.05)),
            max_wait_ms=self._random.choice((60_000, 600_000, 600_000)),
        )

    def _plan_end(self, member: AnyMember) -> None:
        """Plan the end of a member: some die and restart with the same id, some leave, some are replaced."""
        fault = self._random.choice(("dying_members", "leaving_members"))
        if fault not in self._world.faults:
            return
        self._clock.after(self._random.expovariate(1 / 300_000), lambda: self._end(member, fault))

    def _end(self, member: AnyMember, fault: str) -> None:
        if not self._world.has(fault) or not member.alive:
            return
        if fault == "dying_members":
            member.die()
        else:
            member.leave()
        delay_ms = self._random.choice((0, 1_000, 30_000, 120_000))
        if self._random.random() < 0.5:
            self._clock.after(delay_ms, lambda: self._again(member))
        else:
            self._clock.after(delay_ms, self._come)

    def _again(self, member: AnyMember) -> None:
        if not member.alive and self._clock.now_ms < self._world.calm_ms:
            member.start()
            self._plan_end(member)

    # -- administrator ---------------------------------------------------------------------------------------------

    def _administer(self) -> None:
        self._clock.after(self._random.expovariate(1 / _ADMIN_EVERY_MS), self._act)

    def _act(self) -> None:
        kinds = ("alter_configs", "alter_offsets", "delete_offsets", "delete_group")
        kind = self._random.choice(kinds)
        if self._world.has(kind) and not self._admin.is_busy:
            topic = self._random.choice(self._topics)
            if kind == "alter_configs":
                self._admin.set_any_config()
            elif self._random.random() < 0.2:
                self._reset(kind, topic)
            else:
                self._while_empty(kind, topic)
        if self._clock.now_ms < self._world.calm_ms:
            self._administer()

    def _while_empty(self, kind: str, topic: str) -> None:
        """Let all members leave, send the request, and let them return."""
        leaving = [member for member in self._members if member.alive]
        for member in leaving:
            member.leave()
        self._clock.after(self._random.choice((2_000, 60_000)), lambda: self._reset(kind, topic))
        for member in leaving:
            self._clock.after(self._random.choice((61_000, 90_000)), functools.partial(self._again, member))

    def _reset(self, kind: str, topic: str) -> None:
        if self._admin.is_busy:
            return
        if kind == "alter_offsets":
            self._admin.alter_offsets(topic)
        elif kind == "delete_offsets":
            self._admin.delete_offsets(topic)
        else:
            self._admin.delete_group()


class ReleasingGroup:
    """A group of three consumers that release half of their records, in the runs with reservations."""

    group_id = RELEASING_GROUP

    def __init__(self, fleet: GatewayFleet, topics: tuple[str, ...]) -> None:
        self._fleet, self._topics = fleet, topics
        self._members = [
            fleet.member_with(f"{self.group_id}-{number}", self.group_id, topics, HABITS["returning"])
            for number in (1, 2, 3)
        ]

    def start(self) -> None:
        """Let the members join."""
        for member in self._members:
            member.start()

    def calm_down(self) -> None:
        """Let all members leave, and start a good member that stays."""
        for member in self._members:
            member.leave()
        self._fleet.member_with(f"{self.group_id}-good", self.group_id, self._topics, WELL_BEHAVED).start()


class Population:
    """All groups. New ones start until the run is calm."""

    def __init__(self, world: World, topics: tuple[str, ...], fleet: GatewayFleet | None, spark: SparkFleet) -> None:
        self._world, self._topics, self._fleet, self._spark = world, topics, fleet, spark
        self._random = world.random("population")
        self.groups: list[Group | ReleasingGroup] = []

    def start(self) -> None:
        """Start the first groups."""
        for _ in range(self._random.choice((1, 1, 1, 1, 2))):
            self._new()
        for visits_ms in self._random.choice(((), (), (0,), (60_000,), (60_000, 120_000))):
            delay_ms = self._random.uniform(60_000, max(61_000, self._world.calm_ms - self._world.clock.now_ms))
            self._world.clock.after(delay_ms, functools.partial(self._new, visits_ms))
        if self._fleet is not None and RESERVATIONS in self._world.faults:
            self.groups.append(releasing := ReleasingGroup(self._fleet, self._topics))
            releasing.start()
        self._world.clock.at(self._world.calm_ms + 1, self._calm_down)

    def _new(self, visits_ms: int = 0) -> None:
        if self._world.clock.now_ms < self._world.calm_ms:
            group = Group(
                self._world, self._fleet, self._spark, f"group-{len(self.groups) + 1}", self._topics, visits_ms
            )
            self.groups.append(group)
            group.start()

    def _calm_down(self) -> None:
        self._world.trace.add("simulation", "no more faults")
        for group in self.groups:
            group.calm_down()
