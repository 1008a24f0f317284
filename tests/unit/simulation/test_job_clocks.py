"""The job's clock is wrong, and brokers' clocks differ: no promise is broken, and defects planted for it are found."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from sharegroup.job.commit.query_run import QueryRun
from sharegroup.kafka_clients import broker_clock, job_clock
from sharegroup.kafka_clients.job_clock import ClockReading
from tests.simulation import machine_clock
from tests.simulation.machine_clock import MachineClock, SimulatedJobClock
from tests.simulation.run import run

pytestmark = pytest.mark.long

Plant = Callable[[pytest.MonkeyPatch], None]


def machine_of(run: QueryRun) -> MachineClock:
    assert isinstance(run._clock, SimulatedJobClock)
    return run._clock.machine


def wall_ms(run: QueryRun) -> int:
    return machine_of(run).wall_ms()


def locks_start_by_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    """They begin at the time of the driver's machine."""
    begin = QueryRun.begin_batch
    patch.setattr(QueryRun, "begin_batch", lambda run, batch_id: begin(run, batch_id)._replace(latest_ms=wall_ms(run)))


def locks_end_by_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    """The sources take the time of the driver's machine for the brokers'."""

    def reading(clock: SimulatedJobClock) -> ClockReading:
        return ClockReading(clock.local_ms(), clock.machine.wall_ms())

    patch.setattr(SimulatedJobClock, "reading", reading)


def a_fetch_is_given_up_by_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    """Whether anybody waits for it still is judged by the time of the driver's machine."""
    begin = QueryRun.begin_batch
    patch.setattr(
        QueryRun, "begin_batch", lambda run, batch_id: begin(run, batch_id)._replace(earliest_ms=wall_ms(run))
    )


def locks_end_by_the_broker_that_is_ahead(patch: pytest.MonkeyPatch) -> None:
    """Brokers that are behind may still append requests of an earlier time."""

    def reading(clock: SimulatedJobClock) -> ClockReading:
        local_ms = clock.local_ms()
        return ClockReading(local_ms, clock._at(local_ms).latest_ms)

    patch.setattr(SimulatedJobClock, "reading", reading)


def the_steady_clock_is_trusted(patch: pytest.MonkeyPatch) -> None:
    """The brokers' time is read once, and the drift of the machine's steady clock does not count."""
    patch.setattr(SimulatedJobClock, "is_probe_due", lambda clock: clock._probed_ms is None)
    for module in (broker_clock, job_clock):
        patch.setattr(module, "DRIFT", 0)


_SHORT, _STALL = "a lock is as long as configured", "a wrong clock delays nothing"
_SAFE = "the safe clock waits for requests"
_BOTH = ("job_clock", "broker_clocks")
_HOURS = 0.4
#: By name: the defect, the faults and a seed that show it, and the rule by which it must be found.
DEFECTS: dict[str, tuple[Plant, Collection[str], int, str]] = {
    plant.__name__: (plant, faults, seed, rule)
    for plant, faults, seed, rule in (
        (locks_start_by_the_wall_clock, _BOTH, 7, _SHORT),
        (locks_end_by_the_wall_clock, _BOTH, 7, _SAFE),
        (a_fetch_is_given_up_by_the_wall_clock, _BOTH, 7, _STALL),
        (locks_end_by_the_broker_that_is_ahead, ("broker_clocks",), 4, _SAFE),
        (the_steady_clock_is_trusted, ("job_clock",), 7, _SAFE),
    )
}


@pytest.fixture(autouse=True)
def _many_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short runs show much."""
    monkeypatch.setattr(machine_clock, "_EVERY_MS", 60_000)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_of_clocks_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, faults, seed, rule = DEFECTS[name]
    plant(monkeypatch)
    assert rule in {violation.rule for violation in run(seed, _HOURS, faults).violations}


@pytest.mark.parametrize(("faults", "seed"), [(_BOTH, 7), (("broker_clocks",), 4), (("job_clock",), 7)])
def test_wrong_clocks_break_no_promise(faults: Collection[str], seed: int) -> None:
    assert run(seed, _HOURS, faults).violations == ()
