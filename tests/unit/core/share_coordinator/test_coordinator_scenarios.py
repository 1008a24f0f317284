"""The recorded behaviour of Kafka's share coordinator, and the runner that checks it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios import coordinator_trace

SCENARIO_FILE = Path(__file__).parents[3] / "scenarios" / "share_coordinator.jsonl"
SCENARIOS: dict[str, dict[str, Any]] = {
    scenario["id"]: scenario for scenario in map(json.loads, SCENARIO_FILE.read_text(encoding="utf-8").splitlines())
}
CURRENT = sorted(name for name, scenario in SCENARIOS.items() if not coordinator_trace.is_superseded(scenario))


@pytest.mark.parametrize("name", CURRENT)
def test_the_job_writes_and_recovers_as_kafka_did(name: str) -> None:
    scenario = SCENARIOS[name]
    assert coordinator_trace.differences(scenario, coordinator_trace.run(scenario)) == []


def test_missing_scenarios_are_listed_by_name() -> None:
    superseded = {"cow-005", "cow-019"}
    assert set(SCENARIOS) - set(CURRENT) == superseded | set(coordinator_trace.NOT_OURS)
    assert set(coordinator_trace.NOT_OURS) <= set(SCENARIOS)
    of_older_releases = {**SCENARIOS["cow-019"], "steps": [SCENARIOS["cow-019"]["steps"][i] for i in (0, 2)]}
    assert coordinator_trace.run(of_older_releases)[1]["error"] == "INVALID_REQUEST"


def test_an_update_says_minus_one_where_the_writer_passed_it() -> None:
    assert set(coordinator_trace.CONTRADICTED) == {("cow-021", 2, "records")}
    scenario = SCENARIOS["cow-021"]
    (expected,) = scenario["expect"]["steps"][2]["records"]
    (actual,) = coordinator_trace.run(scenario)[2]["records"]
    assert actual == {**expected, "start_offset": -1}
    (observed,) = SCENARIOS["cow-013"]["observed"][3]["records"]
    assert coordinator_trace.run(SCENARIOS["cow-013"])[3]["records"] == [observed]
    assert observed["start_offset"] == -1


def test_combined_batches_are_maximally_fused() -> None:
    scenario = SCENARIOS["cmb-026"]
    assert coordinator_trace.run(scenario) == scenario["expect"]["steps"]


@pytest.mark.parametrize(
    ("name", "step", "key", "wrong"),
    [
        ("cow-001", 0, "error", "INVALID_REQUEST"),
        ("cow-001", 0, "fence", {"leader_epoch": 1, "state_epoch": 3}),
        ("cor-002", 2, "response", {"start_offset": 0}),
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


def test_unknown_operation_is_rejected() -> None:
    scenario = {"model": "coordinator", "config": {}, "steps": [{"op": "compact"}]}
    with pytest.raises(ValueError, match="compact"):
        coordinator_trace.run(scenario)
