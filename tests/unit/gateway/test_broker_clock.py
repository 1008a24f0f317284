"""The brokers' time by what is known of appends."""

from __future__ import annotations

from sharegroup.gateway.broker_clock import SAMPLE_MS, BrokerClock


def test_the_local_time_counts_while_nothing_is_known() -> None:
    clock = BrokerClock()
    clock.appended(1_000, -1, 1_004)
    assert clock.now_ms(1_010) == 1_010


def test_the_quickest_append_tells_the_offset() -> None:
    clock = BrokerClock()
    clock.appended(1_000, 31_050, 1_100)
    assert clock.now_ms(2_000) == 32_000
    clock.appended(2_000, 31_990, 2_010)  # within 5 ms
    assert clock.now_ms(2_010) == 31_995
    clock.appended(3_000, 90_000, 3_600)  # says less
    assert clock.now_ms(3_600) == 33_585


def test_after_a_while_a_slow_append_counts_too() -> None:
    clock = BrokerClock()
    clock.appended(1_000, 1_001, 1_002)
    later = 1_002 + SAMPLE_MS
    clock.appended(later - 100, later + 450, later)
    assert clock.now_ms(later) == later
    clock.appended(later - 99, later + 451, later + 1)
    assert clock.now_ms(later) == later + 500
