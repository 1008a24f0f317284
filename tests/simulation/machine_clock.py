"""The clocks of the machine that a job runs on: one that somebody sets, and one that nobody does, which drifts.

With the fault `job_clock` the wall clock is set wrong again and again, by seconds or by days, and set right later. The
project's code decides nothing by it; code that does is what the fault is there to find.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from sharegroup.kafka_clients.job_clock import JobClock
from tests.simulation.world import World

#: Between two jumps, on average.
_EVERY_MS = 300_000
#: How far a jump goes, in either direction, and how long the clock stays there.
_JUMPS_MS = (2_000, 40_000, 600_000, 3_600_000, 86_400_000)
_LASTS_MS = (1_000, 30_000, 300_000)
#: How much faster or slower than true time a machine's steady clock is, at most.
_DRIFT = 0.0002


class MachineClock:
    """The clocks of one process; `name` is the process's, for the trace. They are set while it `is_alive`."""

    def __init__(self, world: World, name: str, is_alive: Callable[[], bool]) -> None:
        self._world, self._name, self._is_alive = world, name, is_alive
        self._random: Random = world.random(f"clock {name}")
        self._wrong_ms = 0
        self._rate = 1.0
        if "job_clock" in world.faults:
            self._rate += self._random.uniform(-_DRIFT, _DRIFT)
            self._plan()

    def steady_ms(self) -> int:
        """Return the time since the machine was started, as its clock has it."""
        return 1_000_000 + int(self._rate * 1_000 * self._world.clock.monotonic_s())

    def wall_ms(self) -> int:
        """Return the time of day, as somebody has set it."""
        return self._world.clock.now_ms + self._wrong_ms

    def _plan(self) -> None:
        self._world.clock.after(self._random.expovariate(1 / _EVERY_MS), self._jump)

    def _jump(self) -> None:
        if not (self._world.has("job_clock") and self._is_alive()):
            return
        self._wrong_ms = self._random.choice((-1, 1)) * self._random.choice(_JUMPS_MS)
        self._world.trace.add(self._name, f"wall clock is set {self._wrong_ms / 1000:+g} s from the true time")
        self._world.clock.after(self._random.choice(_LASTS_MS), self._set_right)

    def _set_right(self) -> None:
        self._wrong_ms = 0
        self._world.trace.add(self._name, "wall clock is set right")
        self._plan()


class SimulatedJobClock(JobClock):
    """The job's clock on a machine; `machine` is there for planted defects, which go by its wall clock."""

    def __init__(self, machine: MachineClock) -> None:
        super().__init__(machine.steady_ms)
        self.machine = machine
