"""Every worked example of Kafka's own behaviour, on the machine (tests/scenarios/README.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios import share_partition_trace

SCENARIOS = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "scenarios" / "share_partition.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]

#: Where we differ from Kafka on purpose: lost records do not hold up the start offset.
QUIRKS = {
    "lsm-003": [(3, "spso", 10), (3, "records", [])],
    "lsm-005": [(6, "spso", 20), (6, "records", [])],
}


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s["id"]) for s in SCENARIOS if not s.get("quirk")])
def test_scenario(scenario: dict[str, Any]) -> None:
    assert share_partition_trace.differences(scenario, share_partition_trace.run(scenario)) == []


@pytest.mark.parametrize("scenario", [pytest.param(s, id=s["id"]) for s in SCENARIOS if s.get("quirk")])
def test_quirk(scenario: dict[str, Any]) -> None:
    found = share_partition_trace.differences(scenario, share_partition_trace.run(scenario))
    assert [(step, key, actual) for step, key, _, actual in found] == QUIRKS[scenario["id"]]
