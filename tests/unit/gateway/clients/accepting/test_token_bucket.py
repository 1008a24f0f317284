"""So much a second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.gateway.clients.accepting.token_bucket import TokenBucket


def test_a_seconds_worth_may_come_at_once() -> None:
    bucket = TokenBucket(10, 0)
    assert [bucket.spend(5, 0), bucket.spend(5, 0)] == [0, 0]


def test_a_debt_takes_its_time_to_be_paid() -> None:
    bucket = TokenBucket(1_000, 0)
    assert bucket.spend(3_500, 0) == 2_500
    assert bucket.spend(0, 2_000) == 500
    assert bucket.spend(0, 2_500) == 0


def test_who_was_away_has_no_more_than_a_seconds_worth() -> None:
    bucket = TokenBucket(10, 0)
    assert bucket.spend(10, 0) == 0
    assert bucket.spend(11, 3_600_000) == 100


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(10, 1_000)
    assert bucket.spend(20, 1_000) == 1_000
    assert bucket.spend(0, 0) == 1_000
    assert bucket.spend(0, 1_000) == 1_000


def test_a_part_of_a_millisecond_counts_as_a_whole_one() -> None:
    assert TokenBucket(3_000, 0, burst=1).spend(2, 0) == 1


def test_what_is_taken_one_by_one_is_never_owed() -> None:
    bucket = TokenBucket(2, 0)
    assert [bucket.take(0), bucket.take(0), bucket.take(0), bucket.take(499), bucket.take(500)] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert not bucket.is_full(500)
    assert bucket.is_full(1_500)


@given(st.floats(0.1, 1e9), st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 2_000)), max_size=30))
def test_who_waits_as_told_never_has_more_than_its_rate(rate: float, spent: list[tuple[float, int]]) -> None:
    now, total, bucket = 0, 0.0, TokenBucket(rate, 0)
    for tokens, pause_ms in spent:
        now += bucket.spend(tokens, now)
        total += tokens
        assert total <= max(rate, 1) + rate * now / 1000 + 1e-6 * total
        now += pause_ms
