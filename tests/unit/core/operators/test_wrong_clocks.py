"""Batches and ticks with a wrong time: later batches use the correct time again."""

from __future__ import annotations

import pytest

from sharegroup.types import AcknowledgeType

from .shard_driver import LOCK_MS, T0, ShardDriver, acknowledge, config, fetch, load, tick
from .test_share_group_operator import SESSION_MS, heartbeat, with_assignment
from .test_share_group_operator import tick as group_tick

HOUR_MS = 3_600_000


def shard(end: int = 100) -> ShardDriver:
    made = ShardDriver()
    made.batch(config(), load(0, (0, end)), at=0)
    return made


@pytest.mark.parametrize("wrong_ms", [HOUR_MS, -HOUR_MS])
def test_a_fetch_after_a_batch_of_a_wrong_time_gets_records(wrong_ms: int) -> None:
    made = shard()
    made.batch(load(0, (0, 100), partition=1), at=wrong_ms)
    output = made.send(fetch("f1", max_records=2), at=1_000)
    assert output.responses[0]["acquired"] == [[0, 1, 1]]
    assert made.window() == [[0, 1, "ACQUIRED", 1, "m1", 1_000 + LOCK_MS]]


@pytest.mark.parametrize("wrong_ms", [HOUR_MS, -HOUR_MS])
def test_a_lock_after_a_tick_of_a_wrong_time_lasts(wrong_ms: int) -> None:
    made = shard()
    made.batch(tick(wrong_ms), at=500)
    made.send(fetch("f1", max_records=2), at=1_000)
    made.batch(tick(2_000), at=2_500)
    output = made.send(acknowledge("a1", (0, 1, AcknowledgeType.ACCEPT)), at=3_000)
    assert output.responses[0]["error_code"] == 0


def test_a_lock_is_counted_from_the_fetch_at_least() -> None:
    """The batch's time is behind the leader of the request partition."""
    made = shard()
    made.batch(made.line(fetch("f1", max_records=2), at=5_000), at=0)
    assert made.window() == [[0, 1, "ACQUIRED", 1, "m1", 5_000 + LOCK_MS]]


def test_fetch_at_a_broker_with_a_slow_clock_is_not_abandoned() -> None:
    """The clocks of two brokers differ by a minute. The slower one decides whether a fetch is abandoned."""
    made = shard()
    line = made.line(fetch("f1", max_records=2), at=0)
    output = made.batch(line, at=60_000, earliest=0)
    assert output.responses[0]["acquired"] == [[0, 1, 1]]
    assert made.window() == [[0, 1, "ACQUIRED", 1, "m1", 60_000 + LOCK_MS]]


@pytest.mark.parametrize("wrong_ms", [HOUR_MS, -HOUR_MS])
def test_a_session_after_a_batch_of_a_wrong_time_is_as_long_as_ever(wrong_ms: int) -> None:
    group = with_assignment()
    group.batch(group_tick(0), at=wrong_ms)
    output = group.send(heartbeat("h3", 3), at=1_000)
    assert output.responses[0]["session_deadline_ms"] == T0 + 1_000 + SESSION_MS
