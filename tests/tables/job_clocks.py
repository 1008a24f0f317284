"""A job's clock in a test: a broker's time that a test sets."""

from __future__ import annotations

from sharegroup.kafka_clients.job_clock import JobClock

T0 = 1_700_000_000_000


class Machine:
    """A machine's steady clock, and a broker that is `ahead_ms` of it."""

    def __init__(self, ahead_ms: int = T0 - 5_000) -> None:
        self.steady_ms, self.ahead_ms = 5_000, ahead_ms

    def local_ms(self) -> int:
        return self.steady_ms

    def tell(self, clock: JobClock, place: tuple[str, int] = ("requests", 0)) -> None:
        """An append that took no time."""
        clock.probes()
        clock.appended(place, self.steady_ms, self.steady_ms + self.ahead_ms)


def job_clock(machine: Machine | None = None) -> JobClock:
    """One that knows the time: T0, unless the machine has another."""
    machine = machine or Machine()
    clock = JobClock(machine.local_ms)
    machine.tell(clock)
    return clock
