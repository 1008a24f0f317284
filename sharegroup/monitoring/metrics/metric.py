"""A metric's declaration, its series, and what a scrape is given of them.

Names and units are Prometheus's: seconds and bytes, counters end in `_total`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

Labels = tuple[str, ...]


class Kind(str, Enum):
    """As Prometheus has them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """`kafka` is what Kafka's brokers or clients call it, "" for what is ours; `bounds` are those of a histogram."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    kafka: str = ""
    bounds: tuple[float, ...] = ()


class Observations(NamedTuple):
    """A histogram's series: how many observations are up to each bound (beyond the last one: all), and their sum."""

    cumulative: tuple[int, ...]
    sum: float


class Family(NamedTuple):
    """A metric with its series as they are now."""

    metric: Metric
    series: Sequence[tuple[Labels, float | Observations]]


def gauge(metric: Metric, values: Iterable[tuple[Labels, float]]) -> Family:
    """A metric that is read, not counted."""
    return Family(metric, list(values))


class Counter:
    """Counts by labels; one without labels is there from the start, at 0."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._counts: dict[Labels, float] = {} if metric.labels else {(): 0}

    def add(self, count: float, *labels: str) -> None:
        """Count `count` more."""
        self._counts[labels] = self._counts.get(labels, 0) + count

    def forget(self, first_label: str) -> None:
        """Drop the series of one value of the first label."""
        self._counts = {labels: count for labels, count in self._counts.items() if labels[0] != first_label}

    def family(self) -> Family:
        """As it is now."""
        return Family(self._metric, list(self._counts.items()))


class Histogram:
    """Observations by labels, in the buckets of the metric's bounds."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._buckets: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str, times: int = 1) -> None:
        """Observe a value, `times` times."""
        buckets = self._buckets.get(labels)
        if buckets is None:
            self._sums[labels] = 0  # first: another thread may ask
            buckets = self._buckets[labels] = [0] * (len(self._metric.bounds) + 1)
        buckets[bisect_left(self._metric.bounds, value)] += times
        self._sums[labels] += value * times

    def forget(self, first_label: str) -> None:
        """Drop the series of one value of the first label."""
        for labels in [labels for labels in self._buckets if labels[0] == first_label]:
            del self._buckets[labels], self._sums[labels]

    def family(self) -> Family:
        """As it is now."""
        series = [
            (labels, Observations(tuple(_added_up(b)), self._sums[labels])) for labels, b in self._buckets.items()
        ]
        return Family(self._metric, series)


def _added_up(counts: Iterable[int]) -> Iterator[int]:
    total = 0
    for count in counts:
        total += count
        yield total
