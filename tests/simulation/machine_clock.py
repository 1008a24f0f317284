"""The clocks of the machine on which a job runs: an adjustable wall clock, and a steady clock, which drifts.

With the fault `job_clock` the wall clock is set wrong repeatedly, by seconds or by days, and corrected later. The
project's code makes no decision with it; the fault exists to find code that does.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from sharegroup.kafka_clients.job_clock import JobClock
from tests.simulation.world import World

#: The mean time between two jumps.
_EVERY_MS = 300_000
#: The size of a jump, in either direction, and the time until it is corrected.
_JUMPS_MS = (2_000, 40_000, 600_000, 3_600_000, 86_400_000)
_LASTS_MS = (1_000, 30_000, 300_000)
#: The maximum drift of a machine's steady clock.
_DRIFT = 0.0002


class MachineClock:
    """The clocks of one process; `name` is the process's, for the trace. They are adjusted while it `is_alive`."""

    def __init__(self, world: World, name: str, is_alive: Callable[[], bool]) -> None:
        self._world, self._name, self._is_alive = world, name, is_alive
        self._random: Random = world.random(f"clock {name}")
        self._wrong_ms = 0
        self._rate = 1.0
        if "job_clock" in world.faults:
            self._rate += self._random.uniform(-_DRIFT, _DRIFT)
            self._plan()

    def steady_ms(self) -> int:
        """Return the time since the machine's start, by its steady clock."""
        return 1_000_000 + int(self._rate * 1_000 * self._world.clock.monotonic_s())

    def wall_ms(self) -> int:
        """Return the time of day, by the adjustable clock."""
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
    """The job's clock on a machine; `machine` is for planted defects, which use its wall clock."""

    def __init__(self, machine: MachineClock) -> None:
        super().__init__(machine.steady_ms)
        self.machine = machine
