"""The brokers' time, estimated from appends."""

from __future__ import annotations

from sharegroup.kafka_clients.broker_clock import BrokerClock


def test_local_time_is_used_before_the_first_append() -> None:
    clock = BrokerClock()
    clock.record_append(1_000, -1, 1_004)
    assert clock.now_ms(1_010) == 1_010


def test_fastest_append_determines_the_offset() -> None:
    clock = BrokerClock()
    clock.record_append(1_000, 31_050, 1_100)
    assert clock.now_ms(2_000) == 32_000
    clock.record_append(2_000, 31_990, 2_010)  # within 5 ms
    assert clock.now_ms(2_010) == 31_995
    clock.record_append(3_000, 33_300, 3_600)  # is less exact
    assert clock.now_ms(3_600) == 33_585


def test_uncertainty_grows_with_age() -> None:
    clock = BrokerClock()
    clock.record_append(1_000, 1_001, 1_002)
    clock.record_append(60_902, 61_000, 61_002)  # took 100 ms, when the uncertainty is 62
    assert clock.now_ms(61_002) == 61_002
    clock.record_append(100_900, 101_000, 101_000)  # took 100 ms, when the uncertainty is 102
    assert clock.now_ms(101_000) == 101_050


def test_slow_append_that_agrees_does_not_replace_an_old_offset() -> None:
    """The first response was lost, so the append happened at one end of a long interval."""
    clock = BrokerClock()
    clock.record_append(1_000, 1_002, 1_004)
    clock.record_append(100_000, 100_002, 110_000)
    assert clock.now_ms(110_000) == 110_000


def test_clock_jump_is_noticed_with_the_next_append() -> None:
    for jump_ms in (-20_000, 20_000):
        clock = BrokerClock()
        clock.record_append(1_000, 31_002, 1_004)
        clock.record_append(5_000, 35_050 + jump_ms, 5_100)
        assert clock.now_ms(5_100) - (35_100 + jump_ms) in (-50, 50)  # as exact as the append
        clock.record_append(6_000, 36_050 + jump_ms, 6_100)
        assert clock.now_ms(6_100) == 36_100 + jump_ms


def test_slow_append_of_a_broker_with_another_clock_moves_the_offset_no_further_than_needed() -> None:
    """Its broker is 1.2 s behind the other one, and its response was lost for six seconds."""
    clock = BrokerClock()
    clock.record_append(1_000, 31_002, 1_004)
    clock.record_append(2_000, 30_802, 8_000)
    assert clock.now_ms(8_000) == 36_802
    assert clock.bounds_ms(8_000) == (30_802, 36_802)
