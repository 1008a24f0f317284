"""The rate at which a member consumes records, without the time in which it waits for them."""

from __future__ import annotations

from sharegroup.gateway.sessions.consumption import Consumption


def test_rate_is_unknown_before_the_second_fetch() -> None:
    consumption = Consumption()
    consumption.record_delivery_end(0)
    assert consumption.rate(0) is None
    consumption.record_delivery(500, 1_000)
    assert consumption.rate(9_000) is None
    consumption.record_delivery_end(9_000)
    assert consumption.rate(9_000) == 500 / 8_000


def test_waiting_time_is_not_counted() -> None:
    consumption = Consumption()
    for start in range(0, 50_000, 1_000):  # 5 ms for 500 records, then most of a second without any
        consumption.record_delivery(500, start)
        consumption.record_delivery_end(start + 5)
        consumption.record_delivery_end(start + 500)
    assert consumption.rate(60_000) == 100


def test_consecutive_deliveries_are_averaged() -> None:
    consumption = Consumption()
    for now_ms in range(0, 101, 10):
        consumption.record_delivery(20, now_ms)
    assert consumption.rate(100) == 2


def test_a_pause_counts_while_it_lasts() -> None:
    consumption = Consumption()
    for now_ms in range(0, 5_000, 10):
        consumption.record_delivery(100, now_ms)
    assert consumption.rate(4_990) == 10
    assert consumption.rate(4_999) == 10  # no longer than usual
    slow = consumption.rate(13_990)
    assert slow is not None
    assert 1 <= slow < 1.02


def test_old_measurements_lose_their_weight() -> None:
    consumption = Consumption()
    for now_ms in range(5_000):
        consumption.record_delivery(100, now_ms)
    for now_ms in range(5_000, 20_001, 500):
        consumption.record_delivery(5, now_ms)
    rate = consumption.rate(20_000)
    assert rate is not None
    assert 0.009 < rate < 0.02


def test_shortest_time_is_one_millisecond() -> None:
    consumption = Consumption()
    consumption.record_delivery(500, 7)
    consumption.record_delivery_end(7)
    assert consumption.rate(7) == 500
