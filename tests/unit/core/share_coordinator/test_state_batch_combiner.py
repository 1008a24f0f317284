"""Combination of state batches: both precedences against a naive model with one state per offset."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.core.share_coordinator.state_batch_combiner import Precedence, combine_batches
from sharegroup.types import StateBatch

from .state_batch_strategies import (
    MAX_OFFSET,
    acknowledged,
    acquired,
    available,
    kafka_batches,
    our_batches,
    per_offset,
)

PRECEDENCES = list(Precedence)
START_OFFSETS = st.integers(-1, MAX_OFFSET + 2)


def is_canonical(batches: tuple[StateBatch, ...]) -> bool:
    """Assert that the batches are sorted, disjoint and fused."""
    return all(batch.first_offset <= batch.last_offset for batch in batches) and all(
        low.last_offset < high.first_offset and (low.last_offset + 1 < high.first_offset or low[2:] != high[2:])
        for low, high in pairwise(batches)
    )


@given(st.lists(our_batches(), max_size=12), START_OFFSETS)
def test_newest_wins_equals_a_dict_of_offsets(batches: list[StateBatch], start_offset: int) -> None:
    combined = combine_batches(batches, start_offset, Precedence.NEWEST)
    expected = {offset: state for offset, state in per_offset(batches).items() if offset >= start_offset}
    assert per_offset(combined) == expected
    assert is_canonical(combined)


@given(st.lists(kafka_batches(), max_size=12), START_OFFSETS)
def test_highest_wins_equals_a_dict_of_maxima(batches: list[StateBatch], start_offset: int) -> None:
    strongest = sorted(batches, key=lambda batch: (batch.delivery_count, batch.delivery_state))
    combined = combine_batches(batches, start_offset, Precedence.HIGHEST)
    expected = {offset: state for offset, state in per_offset(strongest).items() if offset >= start_offset}
    assert per_offset(combined) == expected
    assert is_canonical(combined)


@given(st.lists(our_batches(), max_size=8), START_OFFSETS, st.sampled_from(PRECEDENCES))
def test_combining_is_idempotent(batches: list[StateBatch], start_offset: int, precedence: Precedence) -> None:
    once = combine_batches(batches, start_offset, precedence)
    assert combine_batches(once, start_offset, precedence) == once
    assert combine_batches((*once, *once), start_offset, precedence) == once


@given(
    st.lists(kafka_batches(), max_size=8).flatmap(lambda batches: st.tuples(st.just(batches), st.permutations(batches)))
)
def test_the_order_does_not_matter_to_the_highest(orders: tuple[list[StateBatch], list[StateBatch]]) -> None:
    given_order, other_order = orders
    highest = Precedence.HIGHEST
    assert combine_batches(given_order, precedence=highest) == combine_batches(other_order, precedence=highest)


@given(st.lists(our_batches(), max_size=6), st.lists(our_batches(), max_size=6), st.sampled_from(PRECEDENCES))
def test_combining_in_two_steps_equals_one_step(
    old: list[StateBatch], new: list[StateBatch], precedence: Precedence
) -> None:
    in_steps = combine_batches((*combine_batches(old, precedence=precedence), *new), precedence=precedence)
    assert in_steps == combine_batches((*old, *new), precedence=precedence)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(acquired(0, 9, 1), available(0, 9, 1), id="release"),
        pytest.param(acquired(0, 9, 2), available(0, 9, 1), id="unacquire"),
        pytest.param(acquired(0, 9, 1), acquired(0, 9, 1, deadline_ms=60_000), id="renew"),
    ],
)
def test_released_lock_wins_with_newest_but_not_with_highest(old: StateBatch, new: StateBatch) -> None:
    assert combine_batches([old, new], precedence=Precedence.NEWEST) == (new,)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        pytest.param(acquired(0, 4, member="m1"), acquired(5, 9, member="m2"), id="member"),
        pytest.param(acquired(0, 4, deadline_ms=1), acquired(5, 9, deadline_ms=2), id="deadline"),
        pytest.param(available(0, 4, 1), available(5, 9, 2), id="count"),
        pytest.param(available(0, 4), acknowledged(5, 9), id="state"),
        pytest.param(available(0, 4), available(6, 9), id="hole"),
    ],
)
def test_unequal_neighbours_stay_apart(low: StateBatch, high: StateBatch) -> None:
    assert combine_batches([low, high]) == (low, high)


def test_neighbours_that_became_equal_fuse() -> None:
    assert combine_batches([available(0, 4), acknowledged(5, 6), available(7, 9), available(5, 6)]) == (
        available(0, 9),
    )


def test_unsplit_batch_is_the_same_object() -> None:
    batch = acquired(5, 9)
    assert combine_batches([batch])[0] is batch


def test_nothing_combines_to_nothing() -> None:
    assert combine_batches([]) == ()
    assert combine_batches([available(0, 9), available(5, 14)], start_offset=15) == ()
