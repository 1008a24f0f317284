"""The files of a day, merged in tiers: how often a byte is rewritten, and how many files there are."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.storage.writing.compaction import TIERS, due_target

KIB, MIB = 1_024, 1_048_576


def packed(sizes: Sequence[int], target: int) -> tuple[list[int], int]:
    """Pack files as delta-rs does (first fit, largest first); return the files afterwards and the bytes written."""
    bins: list[list[int]] = []
    for size in sorted((size for size in sizes if size <= target), reverse=True):
        fitting = next((each for each in bins if sum(each) + size <= target), None)
        if fitting is None:
            bins.append([size])
        else:
            fitting.append(size)
    merged = [sum(each) for each in bins if len(each) > 1]
    alone = [each[0] for each in bins if len(each) == 1]
    return [*merged, *alone, *(size for size in sizes if size > target)], sum(merged)


def test_nothing_to_merge() -> None:
    assert due_target([]) is None
    assert due_target([10 * KIB]) is None
    assert due_target([10 * KIB, 300 * KIB, 5 * MIB, 200 * MIB]) is None


def test_small_files_are_merged_and_large_ones_left_alone() -> None:
    sizes = [10 * KIB] * 20 + [400 * KIB, 6 * MIB, 100 * MIB]
    target = due_target(sizes)
    assert target is not None
    after, written = packed(sizes, target)
    assert sorted(after) == [200 * KIB, 400 * KIB, 6 * MIB, 100 * MIB]
    assert written == 200 * KIB


def test_a_tier_is_merged_when_it_has_two_files_of_the_next() -> None:
    assert (due_target([300 * KIB] * 26) or 0) < MIB
    sizes = [300 * KIB] * 28
    target = due_target(sizes)
    assert target == 8 * MIB
    after, _ = packed(sizes, target)
    assert len(after) == 2


@given(st.lists(st.integers(1, 300 * MIB), max_size=60))
def test_a_file_that_has_left_its_tier_is_not_rewritten(sizes: list[int]) -> None:
    target = due_target(sizes)
    if target is None:
        assert sum(size < TIERS[0] for size in sizes) <= 1
        return
    tier = next(tier for tier in reversed(TIERS) if target >= tier)
    after, _ = packed(sizes, target)
    full = [size for size in sizes if size >= tier * 5 // 4]
    for size in full:
        assert after.count(size) >= sizes.count(size)


def test_a_day_of_micro_batches_is_written_twice_and_kept_in_few_files() -> None:
    """The file of a micro-batch is mostly its footer, so merging halves its size."""
    sizes: list[int] = []
    by_batches = by_upkeep = most_files = 0
    for number in range(3_456):
        fresh = [6 * KIB + 137 * (number * 100 + each) % (14 * KIB) for each in range(100)]
        by_batches += sum(fresh)
        sizes += [size // 2 for size in fresh]
        most_files = max(most_files, len(sizes))
        target = due_target(sizes)
        if target is not None:
            sizes, written = packed(sizes, target)
            by_upkeep += written
    assert by_batches > 4_000_000_000
    assert by_upkeep < 3 * by_batches
    assert most_files < 300
