"""docs/conformance.md is what `python -m tests.conformance` makes, and its data cannot name what does not exist."""

from __future__ import annotations

import pytest

from tests.conformance.behaviours import Area, Behaviour, Behaviours, KafkaTests, load, problems_of
from tests.conformance.page import PAGE, render

LINE = Behaviour(
    "It works.", ("Kafkas.testIt",), (), ("unit/test_conformance_page.py::test_the_page_is_current",), "", ""
)


def problems(line: Behaviour, *methods: str) -> list[str]:
    return problems_of(Behaviours((Area("Area", (line,)),), (), (KafkaTests("Kafkas", "", ("testIt", *methods)),)))


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(load()), "run: python -m tests.conformance"


def test_a_complete_behaviour_has_no_problem() -> None:
    assert problems(LINE) == []
    assert problems(LINE._replace(tests=("unit/core/share_partition/test_scenarios.py::test_scenario[ack-001]",))) == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"tests": ()}, "no test"),
        ({"tests": ("unit/no_such_file.py::test_it",)}, "there is no test unit/no_such_file.py::test_it"),
        ({"tests": ("unit/test_docs.py::test_it",)}, "there is no test unit/test_docs.py::test_it"),
        ({"tests": ("unit/test_docs.py",)}, "there is no test unit/test_docs.py"),
        (
            {"tests": ("unit/core/share_partition/test_scenarios.py::test_scenario[ack-999]",)},
            "there is no test unit/core/share_partition/test_scenarios.py::test_scenario[ack-999]",
        ),
        ({"differs": "It does not."}, "a difference needs a reason, and a reason one"),
        ({"kafka": ("Kafkas.testIt", "Kafkas.testOther")}, "Kafka has no test Kafkas.testOther"),
    ],
)
def test_what_is_missing_is_a_problem(changed: dict[str, object], problem: str) -> None:
    (found,) = problems(LINE._replace(**changed))  # type: ignore[arg-type]
    assert found.endswith(problem)


def test_a_behaviour_must_be_required_by_something() -> None:
    assert len(problems(LINE._replace(kafka=()))) == 2  # nothing requires it, and testIt is in no behaviour


def test_each_method_of_kafka_is_in_a_behaviour() -> None:
    assert problems(LINE, "testMore") == ["Kafka's test Kafkas.testMore is in no behaviour"]


def test_the_page_has_a_row_for_each_behaviour() -> None:
    found = load()
    rows = [row for row in render(found).splitlines() if row.startswith("| ")]
    lines = sum(len(area.behaviours) for area in found.areas)
    heads = 2 * (len(found.areas) + 2)
    assert len(rows) == lines + len(found.client_only) + len(found.kafka_tests) + heads
