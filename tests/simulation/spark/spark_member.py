"""Members that run the code of a Spark job with `ShareConsumer` and `DeltaSink`, over all of their processes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.simulation.spark.spark_checkpoint import SparkCheckpoint
from tests.simulation.spark.spark_process import SparkHabits, SparkProcess
from tests.simulation.spark.spark_query import POINTS, SinkPlace
from tests.simulation.spark.spark_witness import SparkWitness
from tests.simulation.world import World


class SparkMember:
    """A member with the interface of `RowMember`. Its id, derived from the checkpoint's path, and its checkpoint remain
    unless the checkpoint is removed. A process that ends without a request is restarted."""

    def __init__(
        self, world: World, name: str, group_id: str, topics: tuple[str, ...], habits: SparkHabits, place: SinkPlace
    ) -> None:
        self.world, self.name, self.group_id, self.topics, self.habits = world, name, group_id, topics, habits
        self.member_id = name
        self.place = place
        self._random = world.random(f"member {name}")
        self._witness = SparkWitness(world, group_id, name, habits.is_static)
        self._numbers: Iterator[int] = itertools.count(1)
        self._is_wanted = False
        self.process: SparkProcess | None = None
        self.remove_checkpoint()

    @property
    def alive(self) -> bool:
        """Return whether its process runs."""
        return self.process is not None

    def remove_checkpoint(self) -> None:
        """Remove the checkpoint, so that the next start begins a new query."""
        self.checkpoint = SparkCheckpoint(f"query-{self.name}-{next(self._numbers)}")

    def start(self, dies_at: str = "") -> None:
        """Start a process, which joins."""
        self._is_wanted = True
        if self.process is None:
            name = f"{self.name}-{next(self._numbers)}"
            self._witness.tells(f"{name} starts with {self.checkpoint.query_id} at {self.checkpoint.commits}")
            self.process = SparkProcess(
                self.world, name, self._witness, self.topics, self.habits, self.checkpoint, self.place,
                self._random, self._ended,
            )  # fmt: skip
            self.process.dies_at = dies_at
            self.process.start()

    def die(self) -> None:
        """Kill the process without a restart."""
        self._is_wanted = False
        if self.process is not None:
            self.process.die()

    def leave(self) -> None:
        """End between batches and leave the group, which takes a while."""
        self._is_wanted = False
        if self.process is not None:
            self.process.end("it is to leave", leave_group=True)

    def pause(self, ms: float) -> None:
        """Suspend the process for a time."""
        if self.process is not None:
            self.process.time.stand_still(ms)

    def cut_off(self, ms: float) -> None:
        """Cut the process off from Kafka for a time."""
        if self.process is not None:
            self.process.cut_off(ms)

    def dies_in_a_batch(self) -> None:
        """Let the process die at some point of its next batch; the next process may do the same."""
        if self.process is not None:
            self.process.dies_at = self._random.choice(POINTS)

    def _ended(self, process: SparkProcess) -> None:
        self.process = None
        has_died = self.world.has("dying_members") and process.dies_at != ""
        if has_died and self._random.random() < 0.15:
            self.remove_checkpoint()
        dies_again = has_died and self._random.random() < 0.5
        delay_ms = self._random.choice((200, 3_000, 20_000, 120_000))
        self.world.clock.after(delay_ms, lambda: self._again(self._random.choice(POINTS) if dies_again else ""))

    def _again(self, dies_at: str) -> None:
        if self._is_wanted:
            self.start(dies_at)
