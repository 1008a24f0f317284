"""The trace runner's command: what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sharegroup.testkit.trace import main

SCENARIOS = Path(__file__).parents[1] / "scenarios"

SCENARIO: dict[str, Any] = {
    "id": "t-1",
    "given": {"spso": 0, "log_start": 0, "log_end": 4, "batches": []},
    "config": {"delivery_count_limit": 5, "record_lock_duration_ms": 30000, "max_record_locks": 2000},
    "steps": [{"op": "init"}, {"op": "fetch", "member": "m1", "max_records": 3}],
    "expect": [{"spso": 0}, {"spso": 0, "records": [[0, 2, "ACQUIRED", 1, "m1"]], "acquired": [[0, 2, 1]]}],
}


def scenario(**changes: Any) -> str:
    return json.dumps({**SCENARIO, **changes})


def with_steps(*steps: dict[str, Any]) -> str:
    return scenario(steps=[{"op": "init"}, *steps], expect=[{}] * (len(steps) + 1))


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(*lines: str) -> str:
        path = tmp_path / "traces.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        return str(path)

    return write


def test_the_shipped_scenarios_of_both_models_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SCENARIOS / "share_partition.jsonl"), str(SCENARIOS / "share_coordinator.jsonl")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "287 passed, 0 failed, 2 quirks that differ, 12 left out"
    assert all("(quirk)" in line for line in lines[:-1])


def test_a_difference_is_one_line_and_status_1(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = scenario(id="t-2", expect=[{"spso": 7}, {"acquired": [[0, 3, 1]], "unheard_of": None}])
    assert main([write(scenario(), wrong)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "t-2 step 0 spso: expected 7, actual 0",
        "t-2 step 1 acquired: expected [[0, 3, 1]], actual [[0, 2, 1]]",
        "t-2 step 1 unheard_of: expected null, actual null",
        "1 passed, 1 failed, 0 quirks that differ",
    ]


def test_to_initialise_an_active_share_partition_again_is_a_no_op(write: Any) -> None:
    expect = SCENARIO["expect"]
    again = scenario(steps=[*SCENARIO["steps"], {"op": "init"}], expect=[*expect, {"records": expect[1]["records"]}])
    assert main([write(again)]) == 0


def test_a_quirk_that_differs_is_told_but_no_failure(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(scenario(quirk=True, expect=[{"spso": 7}, {}]))]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "t-1 (quirk) step 0 spso: expected 7, actual 0",
        "0 passed, 0 failed, 1 quirks that differ",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "{not json",
        "[1, 2]",
        '{"id": "t-3"}',
        scenario(id=None),
        scenario(model="group_coordinator"),
        scenario(steps=[]),
        scenario(steps=[{"op": "fetch", "member": "m1", "max_records": 3}], expect=[{}]),
        scenario(steps=[{"op": "init"}, {"op": "jump"}]),
        scenario(config={"delivery_count_limits": 5}),
        scenario(
            given={
                "spso": 0,
                "log_start": 0,
                "log_end": 4,
                "batches": [{"first": 0, "last": 1, "state": "NEW", "count": 1}],
            }
        ),
        with_steps({"op": "ack", "member": "m1", "batches": [{"first": 0, "last": 1, "types": [None]}]}),
    ],
)
def test_a_malformed_line_is_named_and_the_others_run(
    write: Any, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    path = write(line, "", scenario())
    assert main([path]) == 2
    error, counts = capsys.readouterr().out.splitlines()
    assert error.startswith(f"{path}:1: not a scenario: ")
    assert counts == "1 passed, 0 failed, 0 quirks that differ, 1 malformed"


def test_a_file_that_is_not_there_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().out


def test_json_prints_what_each_step_gave(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(scenario()), "--json"]) == 0
    output = capsys.readouterr()
    assert [json.loads(line) for line in output.out.splitlines()] == [
        {
            "id": "t-1",
            "actual": [
                {"spso": 0, "records": []},
                {"spso": 0, "records": [[0, 2, "ACQUIRED", 1, "m1"]], "acquired": [[0, 2, 1]]},
            ],
        }
    ]
    assert output.err == "1 passed, 0 failed, 0 quirks that differ\n"


def test_steps_that_no_shipped_scenario_has(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    line = with_steps(
        {"op": "config", "set": {"delivery_count_limit": 1}},
        {"op": "fetch", "member": "m1", "max_records": 2},
        {"op": "ack", "member": "m1", "batches": [{"first": 0, "last": 0, "types": ["ACCEPTED"]}]},
        {"op": "ack", "member": "m1", "batches": [{"first": 0, "last": 0, "types": ["RENEW"]}], "is_renew_ack": False},
        {"op": "ack", "member": "m1", "batches": [{"first": 0, "last": 0, "types": ["RELEASE"]}]},
    )
    assert main([write(line), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["actual"]
    assert [result.get("error", "-") for result in results] == [
        "-",
        "-",
        "-",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        None,
    ]
    assert results[-1]["spso"] == 1
