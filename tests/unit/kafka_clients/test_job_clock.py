"""The job's clock: bounds of the brokers' time, independent of the machine's wall clock."""

from __future__ import annotations

import pytest

from sharegroup.kafka_clients.job_clock import (
    FRESH_MS,
    PROBE_MS,
    BrokersTime,
    ClockReading,
    ClockUnknownError,
    JobClock,
)

AHEAD_MS = 1_700_000_000_000


class Steady:
    """The machine's steady clock."""

    def __init__(self) -> None:
        self.now_ms = 5_000

    def __call__(self) -> int:
        return self.now_ms


def append(clock: JobClock, steady: Steady, partition: int, took_ms: int = 0, skew_ms: int = 0) -> None:
    """Append in the middle of the request's duration, at a broker that is `skew_ms` ahead of the first."""
    sent_ms = steady.now_ms
    steady.now_ms += took_ms
    clock.record_append(("requests", partition), sent_ms, AHEAD_MS + sent_ms + took_ms // 2 + skew_ms)


def test_time_is_unknown_before_an_append() -> None:
    with pytest.raises(ClockUnknownError):
        JobClock(Steady()).now()


def test_duration_of_an_append_is_the_uncertainty() -> None:
    steady = Steady()
    clock = JobClock(steady)
    append(clock, steady, 0, took_ms=20)
    steady.now_ms += 1_000
    right_ms = AHEAD_MS + steady.now_ms
    assert clock.now() == BrokersTime(right_ms - 11, right_ms + 11)


def test_different_brokers_give_earliest_and_latest_time() -> None:
    steady = Steady()
    clock = JobClock(steady)
    for partition, skew_ms in enumerate((0, -500, 700)):
        append(clock, steady, partition, skew_ms=skew_ms)
    assert clock.now() == BrokersTime(AHEAD_MS + steady.now_ms - 500, AHEAD_MS + steady.now_ms + 700)


@pytest.mark.parametrize("wrong_ms", [3_600_000, -3_600_000])
def test_corrected_clock_of_a_broker_is_used_again(wrong_ms: int) -> None:
    steady = Steady()
    clock = JobClock(steady)
    append(clock, steady, 0)
    append(clock, steady, 0, skew_ms=wrong_ms)
    append(clock, steady, 0)
    assert clock.now() == BrokersTime(AHEAD_MS + steady.now_ms, AHEAD_MS + steady.now_ms)


def test_partition_without_recent_appends_is_ignored() -> None:
    steady = Steady()
    clock = JobClock(steady)
    append(clock, steady, 0, skew_ms=-90_000)
    steady.now_ms += FRESH_MS + 1
    append(clock, steady, 1)
    assert clock.now() == BrokersTime(AHEAD_MS + steady.now_ms, AHEAD_MS + steady.now_ms)


def test_probe_is_due_once_per_interval() -> None:
    steady = Steady()
    clock = JobClock(steady)
    assert clock.is_probe_due()
    clock.record_probe()
    assert not clock.is_probe_due()
    steady.now_ms += PROBE_MS
    assert clock.is_probe_due()


def test_reading_is_never_ahead_of_the_brokers() -> None:
    """The possible drift of the machine's clock is subtracted, before the reading and after it."""
    reading = ClockReading(1_000_000, AHEAD_MS + 1_000_000)
    assert reading.earliest_at(1_000_000) == AHEAD_MS + 1_000_000
    assert reading.earliest_at(1_060_000) == AHEAD_MS + 1_060_000 - 60
    assert reading.earliest_at(940_000) == AHEAD_MS + 940_000 - 60
