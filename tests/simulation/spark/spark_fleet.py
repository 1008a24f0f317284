"""The Spark members of a run, their tables, and the faults of their processes."""

from __future__ import annotations

import dataclasses

from tests.simulation.judges.sink_judge import SinkJudge
from tests.simulation.members.simulated_sink import SimulatedSink
from tests.simulation.spark.spark_member import SparkMember
from tests.simulation.spark.spark_process import SparkHabits
from tests.simulation.spark.spark_query import SinkPlace
from tests.simulation.world import World

#: The mean time between two faults of these processes.
_FAULT_MS = 150_000
_FAULTS = ("slow_members", "bad_network", "dying_members", "dying_members")
GOOD = SparkHabits(max_records=500, work_ms=(20, 200))


class SparkFleet:
    """The creator of a run's Spark members and their faults. A `share` of the members with rows are of this kind."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random("spark members")
        self._share = self._random.choice((0, 0.3, 0.5, 1))
        self._members: list[SparkMember] = []
        self._places: dict[str, SinkPlace] = {}

    def is_next(self) -> bool:
        """Return whether the next member is a Spark member."""
        return self._random.random() < self._share

    def start(self) -> None:
        """Begin with the faults."""
        if self._share:
            self._plan()

    def member(
        self, name: str, group_id: str, topics: tuple[str, ...], habits: SparkHabits | None = None
    ) -> SparkMember:
        """Return a member that is not started; `habits` replace random ones."""
        habits = habits or dataclasses.replace(self._habits(), is_static=self._is_static())
        found = SparkMember(self._world, name, group_id, topics, habits, self.place(group_id))
        self._members.append(found)
        return found

    def place(self, group_id: str) -> SinkPlace:
        """Return the table of a group."""
        if group_id not in self._places:
            sink = SimulatedSink(self._world.kafka)
            self._places[group_id] = SinkPlace(sink, SinkJudge(self._world.judge, group_id, sink))
        return self._places[group_id]

    def _habits(self) -> SparkHabits:
        work_ms = self._random.choice(((20, 500), (50, 5_000), (2_000, 14_000)))
        if "slow_members" in self._world.faults and self._random.random() < 0.4:
            work_ms = 5_000, 60_000
        return SparkHabits(
            max_records=self._random.choice((5, 20, 100, 500)),
            work_ms=work_ms,
            fails=self._random.choice((0, 0.05, 0.2)),
            max_wait_ms=self._random.choice((60_000, 600_000)),
            max_processing_ms=self._random.choice((20_000, 300_000)),
        )

    def _is_static(self) -> bool:
        return self._world.has("static_members") and self._world.random("names of Spark members").random() < 0.6

    def _plan(self) -> None:
        self._world.clock.after(self._random.expovariate(1 / _FAULT_MS), self._act)

    def _act(self) -> None:
        alive = [member for member in self._members if member.alive]
        fault = self._random.choice(_FAULTS)
        if alive and self._world.has(fault):
            member = self._random.choice(alive)
            if fault == "slow_members":
                member.pause(self._random.choice((3_000, 20_000, 200_000)))
            elif fault == "bad_network":
                member.cut_off(self._random.choice((5_000, 15_000, 40_000)))
            else:
                member.dies_in_a_batch()
        if self._world.clock.now_ms < self._world.calm_ms:
            self._plan()
