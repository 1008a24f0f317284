"""Converts metrics to Prometheus's exposition format with the library prometheus_client."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as PrometheusFamily
from prometheus_client.registry import Collector

from sharegroup import __version__
from sharegroup.monitoring.metrics.metric import MetricFamily, MetricKind, Observations


class Exposition:
    """Creates the text of a scrape: the metrics of `families`, and prometheus_client's standard process metrics."""

    def __init__(self, families: Callable[[], Iterable[MetricFamily]]) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._registry.register(_Families(families))

    def text(self, accept: str) -> tuple[bytes, str]:
        """Return (text, content type) in the format that the Accept header `accept` requests."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _Families(Collector):
    def __init__(self, families: Callable[[], Iterable[MetricFamily]]) -> None:
        self._families = families

    def describe(self) -> Iterable[PrometheusFamily]:
        """Return no descriptions, so that the registry never calls `collect` when this collector is registered."""
        return ()

    def collect(self) -> Iterator[PrometheusFamily]:
        """Yield the current metrics (called by prometheus_client)."""
        info = GaugeMetricFamily(
            "sharegroup_build_info", "Version of sharegroup. The value is always 1.", labels=("version",)
        )
        info.add_metric((__version__,), 1)
        yield info
        for family in self._families():
            yield _to_prometheus(family)


def _to_prometheus(family: MetricFamily) -> PrometheusFamily:
    metric, labels = family.metric, family.metric.labels
    if metric.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.description, labels=labels)
        bounds = [*(str(float(bound)) for bound in metric.bounds), "+Inf"]
        for values, observations in family.series:
            assert isinstance(observations, Observations)
            histogram.add_metric(values, list(zip(bounds, observations.cumulative, strict=True)), observations.sum)
        return histogram
    family_type = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    result = family_type(metric.name, metric.description, labels=labels)
    for values, value in family.series:
        assert not isinstance(value, Observations)
        result.add_metric(values, value)
    return result
