"""Sums of the sizes of share-partitions by group, compared with a sum over all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.monitoring.metrics import job_catalogue as catalogue
from sharegroup.monitoring.metrics.group_labels import OTHER, GroupLabels
from sharegroup.monitoring.metrics.metric import Labels, Metric
from sharegroup.monitoring.metrics.share_partitions import SharePartitionSizes
from sharegroup.monitoring.metrics.window_sizes import WindowSizes

NOW_MS = 1_000_000


def sizes(group: str = "g", partition: int = 0, *offsets: int) -> WindowSizes:
    return WindowSizes(group, "orders", "id", partition, *offsets)


def gone(group: str = "g", partition: int = 0) -> WindowSizes:
    return WindowSizes(group, "orders", "id", partition, is_managed=False)


def shown(counted: SharePartitionSizes, metric: Metric, now_ms: int = NOW_MS) -> dict[Labels, float]:
    (family,) = (family for family in counted.families(now_ms) if family.metric is metric)
    return {labels: value for labels, value in family.series if isinstance(value, (int, float))}


def test_sizes_are_derived_from_offsets_and_counts() -> None:
    """Offsets 10..29 in flight, of which 5 are finished and 3 are available again; the log ends at 100."""
    window = sizes("g", 0, 10, 30, 5, 3, 100)
    assert (window.in_flight, window.acquired, window.lag, window.available) == (20, 12, 85, 73)


def test_reserved_offsets_are_no_lag_and_not_acquired() -> None:
    """Offsets 10..29 in flight, of which 5 are finished and 3 are available again; the log ends at 30."""
    counted = SharePartitionSizes(GroupLabels(10), 10)
    counted.update(sizes("g", 0, 10, 30, 5, 3, 30, 20), NOW_MS)
    metrics = catalogue.RESERVED, catalogue.ACQUIRED, catalogue.LAG, catalogue.AVAILABLE, catalogue.IN_FLIGHT
    assert [shown(counted, metric)[("g",)] for metric in metrics] == [20, 12, 15, 3, 20]


def test_an_unknown_log_end_adds_no_lag() -> None:
    window = sizes("g", 0, 10, 30, 5, 3, -1)
    assert (window.lag, window.available) == (15, 3)


def test_new_sizes_of_a_share_partition_replace_the_previous_ones() -> None:
    counted = SharePartitionSizes(GroupLabels(10), 0)
    counted.update(sizes("g", 0, 0, 0, 0, 0, 10), NOW_MS)
    counted.update(sizes("g", 1, 0, 0, 0, 0, 5), NOW_MS)
    counted.update(sizes("g", 0, 0, 4, 1, 0, 12), NOW_MS)
    assert shown(counted, catalogue.LAG) == {("g",): 16}
    assert shown(counted, catalogue.ACQUIRED) == {("g",): 3}
    assert shown(counted, catalogue.MANAGED) == {("g",): 2}


def test_a_group_without_share_partitions_has_no_series() -> None:
    counted = SharePartitionSizes(GroupLabels(10), 10)
    counted.update(sizes("g", 0, 0, 0, 0, 0, 10), NOW_MS)
    counted.update(gone(), NOW_MS)
    counted.update(gone("g", 1), NOW_MS)
    assert {family.metric.name: family.series for family in counted.families(NOW_MS) if family.series} == {}


def test_the_age_of_a_group_is_the_maximum_of_its_share_partitions() -> None:
    counted = SharePartitionSizes(GroupLabels(10), 0)
    counted.update(sizes("g", 0, 0, 0, 0, 0, 10), 1_000)
    counted.update(sizes("g", 1, 0, 0, 0, 0, 10), 5_000)
    assert shown(counted, catalogue.OLDEST, 9_000) == {("g",): 8.0}
    counted.update(sizes("g", 0, 10, 10, 0, 0, 10), 6_000)
    assert shown(counted, catalogue.OLDEST, 9_000) == {("g",): 4.0}
    counted.update(gone("g", 1), 7_000)
    assert shown(counted, catalogue.OLDEST, 9_000) == {("g",): 0.0}


def test_groups_above_the_limit_share_one_sum() -> None:
    counted = SharePartitionSizes(GroupLabels(1), 0)
    for number in range(3):
        counted.update(sizes(f"g{number}", 0, 0, 0, 0, 0, 10), NOW_MS)
    assert shown(counted, catalogue.LAG) == {("g0",): 10, (OTHER,): 20}


def test_share_partitions_above_the_limit_have_no_series() -> None:
    counted = SharePartitionSizes(GroupLabels(10), 1)
    for partition in range(3):
        counted.update(sizes("g", partition, 0, 0, 0, 0, 10), NOW_MS)
    assert shown(counted, catalogue.PARTITION_LAG) == {("g", "orders", "0"): 10}
    counted.update(gone("g", 0), NOW_MS)
    counted.update(sizes("g", 2, 0, 0, 0, 0, 11), NOW_MS)
    assert shown(counted, catalogue.PARTITION_LAG) == {("g", "orders", "2"): 11}


OFFSETS = st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 5), st.integers(0, 5), st.integers(0, 20))
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.none() | OFFSETS), max_size=80)


@given(STEPS)
def test_sums_equal_those_over_all_share_partitions(steps: list[tuple[str, int, tuple[int, ...] | None]]) -> None:
    counted, known = SharePartitionSizes(GroupLabels(2), 3), {}
    labels = GroupLabels(2)
    for now_ms, (group, partition, offsets) in enumerate(steps):
        if offsets is None:
            known.pop((group, partition), None)
            counted.update(gone(group, partition), now_ms)
            continue
        start, flight, finished, available, beyond = offsets
        labels.label_of(group)
        finished = min(finished, flight)
        window = sizes(group, partition, start, start + flight, finished, available, start + flight + beyond)
        known[group, partition] = window
        counted.update(window, now_ms)
    for metric, of in ((catalogue.LAG, "lag"), (catalogue.IN_FLIGHT, "in_flight"), (catalogue.ACQUIRED, "acquired")):
        expected: dict[Labels, float] = {}
        for (group, _), window in known.items():
            label = (labels.label_of(group),)
            expected[label] = expected.get(label, 0) + getattr(window, of)
        assert shown(counted, metric) == expected
    assert len(shown(counted, catalogue.PARTITION_LAG)) <= 3
