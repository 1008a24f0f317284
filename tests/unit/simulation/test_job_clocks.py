"""The job's clock is wrong, and brokers' clocks differ: no promise is broken, and defects planted for it are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sharegroup.job.commit.query_run import QueryRun
from sharegroup.kafka_clients.job_clock import ClockReading
from tests.simulation import machine_clock
from tests.simulation.machine_clock import MachineClock, SimulatedJobClock
from tests.simulation.run import run

pytestmark = pytest.mark.thorough

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


_SHORT, _STALL = "a lock is as long as configured", "a wrong clock delays nothing"
#: By name: the defect, and the rule by which it must be found.
DEFECTS: dict[str, tuple[Plant, str]] = {
    plant.__name__: (plant, rule)
    for plant, rule in (
        (locks_start_by_the_wall_clock, _SHORT),
        (locks_end_by_the_wall_clock, "the safe clock waits for requests"),
        (a_fetch_is_given_up_by_the_wall_clock, _STALL),
    )
}
#: A seed that shows them all.
_SEED = 7
_FAULTS, _HOURS = ("job_clock", "broker_clocks"), 0.4


@pytest.fixture(autouse=True)
def _many_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short runs show much."""
    monkeypatch.setattr(machine_clock, "_EVERY_MS", 60_000)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_of_clocks_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, rule = DEFECTS[name]
    plant(monkeypatch)
    assert rule in {violation.rule for violation in run(_SEED, _HOURS, _FAULTS).violations}


def test_wrong_clocks_break_no_promise() -> None:
    assert run(_SEED, _HOURS, _FAULTS).violations == ()
