"""docs/metrics.md: every metric of the job and of the gateway."""

from __future__ import annotations

from sharegroup.monitoring.metrics.gateway_catalogue import GATEWAY_METRICS
from sharegroup.monitoring.metrics.job_catalogue import JOB_METRICS
from sharegroup.monitoring.metrics.metric import Metric


def by_heading() -> dict[str, list[tuple[str, ...]]]:
    """Return each catalogue by the heading of its section: name, kind, labels, meaning and Kafka's name of a metric."""
    return {
        "The job's metrics": [_row(metric) for metric in JOB_METRICS],
        "The gateway's metrics": [_row(metric) for metric in GATEWAY_METRICS],
    }


def _row(metric: Metric) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"`{metric.name}`", metric.kind.value, labels, metric.description, metric.kafka
