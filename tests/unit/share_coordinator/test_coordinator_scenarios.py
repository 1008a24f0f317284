"""The recorded behaviour of Kafka's share coordinator, and the runner that checks it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from sharegroup.testkit import coordinator_trace

SCENARIO_FILE = Path(__file__).parents[2] / "scenarios" / "share_coordinator.jsonl"
SCENARIOS: dict[str, dict[str, Any]] = {
    scenario["id"]: scenario for scenario in map(json.loads, SCENARIO_FILE.read_text(encoding="utf-8").splitlines())
}
CURRENT = sorted(name for name, scenario in SCENARIOS.items() if not coordinator_trace.is_superseded(scenario))


@pytest.mark.parametrize("name", CURRENT)
def test_the_shard_behaves_as_kafka_did(name: str) -> None:
    scenario = SCENARIOS[name]
    assert coordinator_trace.differences(scenario, coordinator_trace.run(scenario)) == []


def test_superseded_scenarios_are_answered_as_kafka_4_4_does() -> None:
    assert sorted(set(SCENARIOS) - set(CURRENT)) == ["cow-005", "cow-019"]
    resolved = coordinator_trace.run(SCENARIOS["cow-005"])[2]["records"]
    assert resolved == SCENARIOS["cow-021"]["expect"]["steps"][2]["records"]
    assert coordinator_trace.run(SCENARIOS["cow-019"])[2]["error"] == "INVALID_REQUEST"


def test_the_contradicted_observation_differs_in_the_start_offset_alone() -> None:
    assert set(coordinator_trace.CONTRADICTED) == {("cow-013", 3, "records")}
    scenario = SCENARIOS["cow-013"]
    (observed,) = scenario["observed"][3]["records"]
    (actual,) = coordinator_trace.run(scenario)[3]["records"]
    assert observed["start_offset"] == -1
    assert actual == {**observed, "start_offset": 0}


def test_combined_batches_are_maximally_fused() -> None:
    scenario = SCENARIOS["cmb-026"]
    assert coordinator_trace.run(scenario) == scenario["expect"]["steps"]


@pytest.mark.parametrize(
    ("name", "step", "key", "wrong"),
    [
        ("cow-001", 0, "error", "INVALID_REQUEST"),
        ("cow-001", 0, "fence", {"leader_epoch": 1, "state_epoch": 3}),
        ("cod-001", 2, "records", []),
        ("cor-006", 0, "response", {"start_offset": 0}),
        ("cmb-006", 0, "batches", [[7, 18, "AVAILABLE", 2]]),
    ],
)
def test_a_wrong_result_is_reported(name: str, step: int, key: str, wrong: object) -> None:
    scenario = SCENARIOS[name]
    actual = copy.deepcopy(coordinator_trace.run(scenario))
    right = actual[step][key]
    actual[step][key] = wrong
    assert coordinator_trace.differences(scenario, actual) == [(step, key, right, wrong)]


def test_a_missing_key_is_reported() -> None:
    scenario = SCENARIOS["cow-001"]
    actual = coordinator_trace.run(scenario)
    del actual[0]["fence"]
    assert coordinator_trace.differences(scenario, actual) == [
        (0, "fence", {"leader_epoch": 0, "state_epoch": 3}, None)
    ]


def test_batches_cut_differently_are_equal() -> None:
    scenario = SCENARIOS["cmb-002"]
    cut = [{"batches": [[7, 10, "AVAILABLE", 1], [11, 30, "AVAILABLE", 1]]}]
    assert coordinator_trace.differences(scenario, cut) == []


def test_an_unknown_operation_is_refused() -> None:
    scenario = {"model": "coordinator", "config": {}, "steps": [{"op": "compact"}]}
    with pytest.raises(ValueError, match="compact"):
        coordinator_trace.run(scenario)
