"""A job's clock in a test, with a broker's time that the test sets."""

from __future__ import annotations

from sharegroup.kafka_clients.job_clock import JobClock

T0 = 1_700_000_000_000


class Machine:
    """A machine's steady clock, and a broker whose clock is `ahead_ms` ahead of it."""

    def __init__(self, ahead_ms: int = T0 - 5_000) -> None:
        self.steady_ms, self.ahead_ms = 5_000, ahead_ms

    def local_ms(self) -> int:
        return self.steady_ms

    def tell(self, clock: JobClock, place: tuple[str, int] = ("requests", 0)) -> None:
        """Report an append that took no time."""
        clock.record_probe()
        clock.record_append(place, self.steady_ms, self.steady_ms + self.ahead_ms)


def job_clock(machine: Machine | None = None) -> JobClock:
    """Return a job clock that has the time: T0, or that of the given machine."""
    machine = machine or Machine()
    clock = JobClock(machine.local_ms)
    machine.tell(clock)
    return clock
