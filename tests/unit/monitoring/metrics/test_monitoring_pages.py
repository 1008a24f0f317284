"""The metrics have unique names, and conf/monitoring names only metrics that exist."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from sharegroup.monitoring.metrics.gateway_catalogue import GATEWAY_METRICS
from sharegroup.monitoring.metrics.job_catalogue import JOB_METRICS
from sharegroup.monitoring.metrics.metric import Metric, MetricKind
from tests.monitoring import MONITORING, alert_expressions, dashboard_expressions, keda_expressions, metric_names

METRICS = (*JOB_METRICS, *GATEWAY_METRICS)
#: The series of a histogram in a scrape.
_SUFFIXES = ("_bucket", "_count", "_sum")


def scraped_as(metric: Metric) -> set[str]:
    is_histogram = metric.kind is MetricKind.HISTOGRAM
    return {metric.name + suffix for suffix in _SUFFIXES} if is_histogram else {metric.name}


def test_names_are_unique_and_counters_end_in_total() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
        assert bool(metric.bounds) == (metric.kind is MetricKind.HISTOGRAM), metric.name


@pytest.mark.parametrize("expressions", [dashboard_expressions, alert_expressions, keda_expressions])
def test_each_expression_names_existing_metrics(expressions: Any) -> None:
    known = {name for metric in METRICS for name in scraped_as(metric)}
    found = expressions()
    assert found
    for expression in found:
        names = metric_names(expression)
        assert names, expression
        assert names <= known | {"up", "process_resident_memory_bytes"}, expression


def test_panels_of_the_dashboard_do_not_overlap_and_have_unique_ids() -> None:
    panels = json.loads((MONITORING / "grafana_dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23


def test_each_alert_has_severity_summary_and_description() -> None:
    groups = yaml.safe_load((MONITORING / "alert_rules.yaml").read_text())["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        kept = re.search(r"by \(([^)]*)\)", rule["expr"])
        if kept:
            assert labels <= set(kept[1].replace(" ", "").split(",")), rule["alert"]
