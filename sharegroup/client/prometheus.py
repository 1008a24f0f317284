"""The metrics of a share consumer for Prometheus.

from prometheus_client import REGISTRY, start_http_server

REGISTRY.register(ConsumerCollector(consumer))
start_http_server(9100)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sharegroup.kafka_clients.consumer_metrics import Metrics

_LABELS = ("group", "member_id")


class MeasuredConsumer(Protocol):
    """A consumer with metrics: ShareConsumer, AsyncShareConsumer, or a Spark member's ShareConsumerQuery."""

    @property
    def group_id(self) -> str:
        """The id of the share group."""

    @property
    def member_id(self) -> str:
        """The member id."""

    def metrics(self) -> Metrics:
        """Return the metrics as {group of metrics: {name: value}}."""


class ConsumerCollector(Collector):
    """Collects the metrics of one consumer.

    Metric names are Kafka's, for example `kafka_consumer_share_metrics_last_poll_seconds_ago`.
    """

    def __init__(self, consumer: MeasuredConsumer) -> None:
        self._consumer = consumer

    def collect(self) -> Iterator[Metric]:
        """Yield the current values of all metrics."""
        labels = (self._consumer.group_id, self._consumer.member_id)
        for group, values in self._consumer.metrics().items():
            for name, value in values.items():
                yield _family(group, name, value, labels)


def _family(group: str, name: str, value: float, labels: tuple[str, str]) -> Metric:
    full_name, help_text = f"kafka_{group}_{name}".replace("-", "_"), f"Kafka's metric {name} of {group}."
    if name.endswith("-total"):
        counter = CounterMetricFamily(full_name, help_text, labels=_LABELS)
        counter.add_metric(labels, value)
        return counter
    gauge = GaugeMetricFamily(full_name, help_text, labels=_LABELS)
    gauge.add_metric(labels, value)
    return gauge
