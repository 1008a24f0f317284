"""Run worked examples of Kafka's behaviour (tests/scenarios/) on the machines: `python -m sharegroup.testkit.trace`.

Prints one line for each difference and the counts; exit status 0 when nothing differs (quirks of Kafka's broker
aside), 1 when something does, 2 when a line cannot be read or is not a scenario; the other lines are run in any case.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from sharegroup.command_parser import CommandParser
from sharegroup.errors import ShareGroupError
from sharegroup.testkit import coordinator_trace, share_partition_trace

#: What a scenario that does not have the documented form raises in `run` or `differences`.
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError)


@dataclass
class TraceReport:
    """Counts over all scenarios; `quirks` are differences where Kafka's own behaviour is an oddity.

    `left_out` are scenarios of what the job does not do; `coordinator_trace.NOT_OURS` says why.
    """

    passed: int = 0
    failed: int = 0
    quirks: int = 0
    left_out: int = 0
    malformed: int = 0

    @property
    def exit_status(self) -> int:
        """2 when a line was malformed, else 1 when a scenario failed, else 0."""
        return 2 if self.malformed else 1 if self.failed else 0

    def __str__(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.quirks} quirks that differ"
        counts += f", {self.left_out} left out" if self.left_out else ""
        return f"{counts}, {self.malformed} malformed" if self.malformed else counts


def model_of(scenario: Mapping[str, Any]) -> Any:
    """The module that runs a scenario: has `run(scenario)` and `differences(scenario, actual)`."""
    model = scenario.get("model", "share_partition")
    if model == "share_partition":
        return share_partition_trace
    if model in ("coordinator", "combine"):
        return coordinator_trace
    raise ValueError(f"unknown model {model!r}")


def run_file(path: Path, report: TraceReport, differences: TextIO, results: TextIO | None = None) -> None:
    """Run every scenario of a JSON-lines file, and count into `report`.

    Differences and malformed lines go to `differences`, a line each; what each step gave to `results`, a JSON object
    `{"id", "actual": [...]}` for each scenario. Raises OSError when the file cannot be read.
    """
    for where, line in _lines(path):
        try:
            scenario = json.loads(line)
            if isinstance(scenario, dict) and scenario.get("id") in coordinator_trace.NOT_OURS:
                report.left_out += 1
                continue
            actual, found = _run(scenario)
        except _MALFORMED as error:
            report.malformed += 1
            print(f"{where}: not a scenario: {type(error).__name__}: {error}", file=differences)
            continue
        except ShareGroupError as error:
            report.failed += 1
            print(f"{scenario['id']}: {type(error).__name__}: {error}", file=differences)
            continue
        _count(scenario, found, report, differences)
        if results is not None:
            print(json.dumps({"id": scenario["id"], "actual": actual}), file=results)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = CommandParser(prog="python -m sharegroup.testkit.trace", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print what each step gave, one JSON object for each scenario (all else goes to standard error)",
    )
    options = parser.parse_args(arguments)
    report = TraceReport()
    human = sys.stderr if options.json else sys.stdout
    for path in options.files:
        try:
            run_file(path, report, human, sys.stdout if options.json else None)
        except (OSError, UnicodeDecodeError) as error:
            report.malformed += 1
            print(f"{path}: {error}", file=human)
    print(report, file=human)
    return report.exit_status


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines that are not blank, with "file:line"."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield f"{path}:{number}", line


def _run(scenario: Any) -> tuple[list[Any], list[tuple[int, str, object, object]]]:
    if not isinstance(scenario, dict):
        raise TypeError("the line is not a JSON object")
    if not isinstance(scenario.get("id"), str):
        raise ValueError("it has no id")
    model = model_of(scenario)
    actual = model.run(scenario)
    return actual, model.differences(scenario, actual)


def _count(
    scenario: Mapping[str, Any],
    found: Sequence[tuple[int, str, object, object]],
    report: TraceReport,
    output: TextIO,
) -> None:
    if not found:
        report.passed += 1
        return
    quirk = bool(scenario.get("quirk"))
    if quirk:
        report.quirks += 1
    else:
        report.failed += 1
    for step, key, expected, actual in found:
        mark = " (quirk)" if quirk else ""
        wanted, got = json.dumps(expected), json.dumps(actual, default=str)
        print(f"{scenario['id']}{mark} step {step} {key}: expected {wanted}, actual {got}", file=output)


if __name__ == "__main__":
    sys.exit(main())
