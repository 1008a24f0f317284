"""Classes for metrics: their declarations, their series, and the values that a scrape returns.

Names and units follow Prometheus. Units are seconds and bytes, and names of counters end in `_total`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

Labels = tuple[str, ...]


class MetricKind(str, Enum):
    """The metric types of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """The declaration of a metric.

    `kafka` is the corresponding metric of Kafka, or empty. `bounds` are the upper bounds of a histogram's buckets.
    """

    name: str
    kind: MetricKind
    description: str
    labels: tuple[str, ...] = ()
    kafka: str = ""
    bounds: tuple[float, ...] = ()


class Observations(NamedTuple):
    """The observations in one series of a histogram.

    `cumulative` contains the number of observations up to each bound, and finally the number of all observations.
    `sum` is the sum of all observed values.
    """

    cumulative: tuple[int, ...]
    sum: float


class MetricFamily(NamedTuple):
    """A metric with the current values of its series."""

    metric: Metric
    series: Sequence[tuple[Labels, float | Observations]]


def gauge(metric: Metric, values: Iterable[tuple[Labels, float]]) -> MetricFamily:
    """Return the family of a gauge. `values` are the label values and the value of each series."""
    return MetricFamily(metric, list(values))


class Counter:
    """Counts for each combination of label values. A counter without labels has one series, which starts at 0."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._counts: dict[Labels, float] = {} if metric.labels else {(): 0}

    def add(self, count: float, *labels: str) -> None:
        """Increase the count of the series with these label values."""
        self._counts[labels] = self._counts.get(labels, 0) + count

    def remove_series(self, first_label: str) -> None:
        """Remove the series with this value of the first label."""
        self._counts = {labels: count for labels, count in self._counts.items() if labels[0] != first_label}

    def family(self) -> MetricFamily:
        return MetricFamily(self._metric, list(self._counts.items()))


class Histogram:
    """Observations for each combination of label values, counted in the buckets of the metric's bounds."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._buckets: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str, times: int = 1) -> None:
        """Add `times` observations of a value to the series with these label values."""
        buckets = self._buckets.get(labels)
        if buckets is None:
            self._sums[labels] = 0  # before the buckets, because `family` may run on another thread
            buckets = self._buckets[labels] = [0] * (len(self._metric.bounds) + 1)
        buckets[bisect_left(self._metric.bounds, value)] += times
        self._sums[labels] += value * times

    def remove_series(self, first_label: str) -> None:
        """Remove the series with this value of the first label."""
        for labels in [labels for labels in self._buckets if labels[0] == first_label]:
            del self._buckets[labels], self._sums[labels]

    def family(self) -> MetricFamily:
        series = [
            (labels, Observations(tuple(accumulate(b)), self._sums[labels])) for labels, b in self._buckets.items()
        ]
        return MetricFamily(self._metric, series)
