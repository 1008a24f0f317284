"""Metrics in Prometheus's words, by its own client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as PrometheusFamily
from prometheus_client.registry import Collector

from sharegroup import __version__
from sharegroup.monitoring.metrics.metric import Family, Kind, Observations


class Exposition:
    """The text of a scrape: what `families` gives, and what there is to say of any Python process."""

    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._registry.register(_Families(families))

    def text(self, accept: str) -> tuple[bytes, str]:
        """The text and its content type, in the format that an Accept header asks for."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _Families(Collector):
    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._families = families

    def describe(self) -> Iterable[PrometheusFamily]:
        """Nothing: it is known only when it is asked for."""
        return ()

    def collect(self) -> Iterator[PrometheusFamily]:
        """prometheus_client's."""
        info = GaugeMetricFamily("sharegroup_build_info", "The version that runs.", labels=("version",))
        info.add_metric((__version__,), 1)
        yield info
        for family in self._families():
            yield _translated(family)


def _translated(family: Family) -> PrometheusFamily:
    metric, labels = family.metric, family.metric.labels
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.text, labels=labels)
        bounds = [*(str(float(bound)) for bound in metric.bounds), "+Inf"]
        for values, seen in family.series:
            assert isinstance(seen, Observations)
            histogram.add_metric(values, list(zip(bounds, seen.cumulative, strict=True)), seen.sum)
        return histogram
    made = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    found = made(metric.name, metric.text, labels=labels)
    for values, value in family.series:
        assert not isinstance(value, Observations)
        found.add_metric(values, value)
    return found
