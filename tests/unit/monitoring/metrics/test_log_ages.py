"""Minimum age of the oldest unfinished record, from observed ends of the log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.monitoring.metrics.log_ages import MAX_ENDS, LogEnds, add_observation, oldest_ms


def test_the_age_counts_from_the_first_observation_of_a_record() -> None:
    ages = add_observation((), 0, 10, 1_000)
    ages = add_observation(ages, 0, 20, 2_000)
    assert oldest_ms(ages) == 1_000
    assert oldest_ms(add_observation(ages, 9, 20, 3_000)) == 1_000
    assert oldest_ms(add_observation(ages, 10, 20, 3_000)) == 2_000


def test_there_is_no_age_if_the_start_offset_is_at_the_end() -> None:
    ages = add_observation((), 0, 10, 1_000)
    assert oldest_ms(add_observation(ages, 10, 10, 2_000)) is None


def test_another_observation_of_the_same_end_changes_nothing() -> None:
    ages = add_observation((), 0, 10, 1_000)
    assert add_observation(ages, 0, 10, 9_000) == ages


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60))
def test_the_age_never_exceeds_the_true_one_and_memory_is_bounded(steps: list[tuple[int, int]]) -> None:
    """The true age is from the first observation of each record. Log end and start offset move at random."""
    ages: LogEnds = ()
    start = end = 0
    first_seen: dict[int, int] = {}
    for now_ms, (appended, finished) in enumerate(steps):
        end += appended
        start = min(end, start + finished)
        for offset in range(start, end):
            first_seen.setdefault(offset, now_ms)
        ages = add_observation(ages, start, end, now_ms)
        assert len(ages) <= 2 * MAX_ENDS
        since = oldest_ms(ages)
        assert (since is None) == (start == end)
        if since is not None:
            assert first_seen[start] <= since <= now_ms
