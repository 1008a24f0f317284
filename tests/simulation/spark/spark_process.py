"""One process of a simulated Spark member: the real `MemberLogic` between its thread and its query, and its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sharegroup.member.member_logic import MemberLogic, MemberSettings
from tests.simulation.members.member_channel import MemberChannel
from tests.simulation.members.member_thread import MemberThread
from tests.simulation.process_time import ProcessTime
from tests.simulation.spark.spark_checkpoint import SparkCheckpoint
from tests.simulation.spark.spark_query import SinkPlace, SparkQuery
from tests.simulation.spark.spark_witness import SparkWitness
from tests.simulation.world import World

_LOOK_MS = 500


@dataclass(frozen=True)
class SparkHabits:
    """The behaviour of a member. `work_ms` is the minimum and maximum duration of its sink's jobs, `fails` the chance
    that its handler raises, `starts_ms` the time that Spark needs to start the query."""

    max_records: int = 100
    work_ms: tuple[int, int] = (50, 3_000)
    starts_ms: tuple[int, int] = (50, 3_000)
    fails: float = 0.0
    max_wait_ms: int = 60_000
    max_processing_ms: int = 300_000
    is_static: bool = False


class SparkProcess:
    """The logic, thread and query of a process until its end. `dies_at` is the point of a batch at which it dies next
    (`spark_query.POINTS`); `on_end` is called after its end."""

    def __init__(
        self,
        world: World,
        name: str,
        witness: SparkWitness,
        topics: tuple[str, ...],
        habits: SparkHabits,
        checkpoint: SparkCheckpoint,
        place: SinkPlace,
        random: Random,
        on_end: Callable[[SparkProcess], None],
    ) -> None:
        self.dies_at = ""
        self._world, self._witness, self._habits, self._random = world, witness, habits, random
        self._on_end = on_end
        self._is_ending = self._leaves_group = False
        self.time = ProcessTime(world.clock)
        self._channel = MemberChannel(world, self.time, random, witness, lambda: self._thread.wake())
        self._query = SparkQuery(
            self.time, random, checkpoint, place, witness, self._work_ms, self._point, self._channel.send,
            lambda: self._thread.wake(), lambda error: self.end(f"{type(error).__name__}: {error}"),
        )  # fmt: skip
        settings = MemberSettings(
            witness.group_id, witness.member_id, topics, habits.max_records, fetch_max_wait_ms=habits.max_wait_ms,
            max_processing_ms=habits.max_processing_ms,
            group_instance_id=witness.member_id if habits.is_static else None,
        )  # fmt: skip
        self.logic = self._query.logic = MemberLogic(settings, self._query.offers, name)
        self.logic.set_brokers_clock(self.time.ahead_ms)
        self._thread = MemberThread(
            self.time, self.logic, self._channel, self._query.answered,
            lambda: self.end(repr(self.logic.failure)), self._gone,
        )  # fmt: skip

    def start(self) -> None:
        """Start the member and the query, each after its own delay."""
        self.time.after(self._random.uniform(50, 500), self._thread.start)
        self.time.after(self._random.uniform(*self._habits.starts_ms), self._query.start)

    def die(self, where: str = "") -> None:
        """Kill the process."""
        self._witness.tells(f"{self.logic.incarnation} dies {where}".strip())
        self._gone()

    def cut_off(self, ms: float) -> None:
        """Cut the process off from Kafka for a time."""
        self._channel.cut_off(ms)

    def end(self, why: str, leave_group: bool = False) -> None:
        """End as `ShareConsumerQuery`: offer nothing, let the running batch finish, leave the group."""
        self._leaves_group |= leave_group
        if not self._is_ending:
            self._is_ending = True
            self._witness.tells(f"{self.logic.incarnation} ends: {why}")
            self.logic.stop_offering(self.time.now_ms)
            self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self._query.is_busy:
            self.time.after(_LOOK_MS, self._close_when_idle)
        else:
            self.logic.close(self.time.now_ms, self._leaves_group)
            self._thread.wake()

    def _gone(self) -> None:
        if self.time.alive:
            self.time.alive = False
            self._channel.close()
            self._on_end(self)

    def _point(self, where: str) -> bool:
        """Return whether the process dies here."""
        if self.dies_at == where:
            self.die(where)
        return not self.time.alive

    def _work_ms(self) -> float | None:
        return None if self._random.random() < self._habits.fails else self._random.uniform(*self._habits.work_ms)
