"""The expressions of conf/monitoring."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

MONITORING = Path(__file__).parents[1] / "conf" / "monitoring"
_NAME = re.compile(r"\b(?:sharegroup_\w+|process_\w+|up)\b")


def dashboard_expressions() -> list[str]:
    """Of all panels, with Grafana's variables as it would fill them in for everything."""
    panels = json.loads((MONITORING / "grafana_dashboard.json").read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [expression.replace("$__rate_interval", "1m").replace("$group", ".*") for expression in found]


def alert_expressions() -> list[str]:
    """Of all rules."""
    groups = yaml.safe_load((MONITORING / "alert_rules.yaml").read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def keda_expressions() -> list[str]:
    """Of all triggers."""
    triggers = yaml.safe_load((MONITORING / "keda_scaled_object.yaml").read_text())["spec"]["triggers"]
    return [trigger["metadata"]["query"] for trigger in triggers]


def metric_names(expression: str) -> set[str]:
    """The metrics that an expression asks for."""
    return set(_NAME.findall(re.sub(r'"[^"]*"', "", expression)))
