"""The token bucket."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.gateway.clients.accepting.token_bucket import TokenBucket


def test_one_second_of_tokens_may_be_spent_immediately() -> None:
    bucket = TokenBucket(10, 0)
    assert [bucket.spend(5, 0), bucket.spend(5, 0)] == [0, 0]


def test_debt_is_paid_at_the_rate() -> None:
    bucket = TokenBucket(1_000, 0)
    assert bucket.spend(3_500, 0) == 2_500
    assert bucket.spend(0, 2_000) == 500
    assert bucket.spend(0, 2_500) == 0


def test_idle_bucket_holds_at_most_one_second_of_tokens() -> None:
    bucket = TokenBucket(10, 0)
    assert bucket.spend(10, 0) == 0
    assert bucket.spend(11, 3_600_000) == 100


def test_clock_that_does_not_advance_adds_no_tokens() -> None:
    bucket = TokenBucket(10, 1_000)
    assert bucket.spend(20, 1_000) == 1_000
    assert bucket.spend(0, 0) == 1_000
    assert bucket.spend(0, 1_000) == 1_000


def test_wait_is_rounded_up_to_milliseconds() -> None:
    assert TokenBucket(3_000, 0, burst=1).spend(2, 0) == 1


def test_single_tokens_are_never_spent_into_debt() -> None:
    bucket = TokenBucket(2, 0)
    assert [
        bucket.try_spend(0),
        bucket.try_spend(0),
        bucket.try_spend(0),
        bucket.try_spend(499),
        bucket.try_spend(500),
    ] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert not bucket.is_full(500)
    assert bucket.is_full(1_500)


@given(st.floats(0.1, 1e9), st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 2_000)), max_size=30))
def test_client_that_waits_as_required_stays_within_its_rate(rate: float, spent: list[tuple[float, int]]) -> None:
    now, total, bucket = 0, 0.0, TokenBucket(rate, 0)
    for tokens, pause_ms in spent:
        now += bucket.spend(tokens, now)
        total += tokens
        assert total <= max(rate, 1) + rate * now / 1000 + 1e-6 * total
        now += pause_ms
