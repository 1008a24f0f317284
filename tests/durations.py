"""Prints how long tests took, as the tables of docs/testing.md, from a JUnit report of pytest.

    PYTEST_ADDOPTS=--junit-xml=report.xml make test
    python -m tests.durations report.xml

A test's time includes the fixtures that it was the first to need, so the first test of a worker that needs the job also
pays for the start of the job.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class TestDuration(NamedTuple):
    """One test of the report: its tier (a folder of tests/), its file without .py, its name and its seconds."""

    tier: str
    file: str
    name: str
    seconds: float


def durations(report: str) -> list[TestDuration]:
    """The tests of a JUnit report, given as XML text. Raises xml.etree.ElementTree.ParseError."""
    found = []
    for case in ElementTree.fromstring(report).iter("testcase"):
        module = [part for part in case.attrib["classname"].split(".") if part != "tests"]
        tier = module[0] if len(module) > 1 else ""
        found.append(TestDuration(tier, "/".join(module), case.attrib["name"], float(case.attrib["time"])))
    return found


def table(header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """A Markdown table."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def by_tier(tests: Iterable[TestDuration]) -> str:
    """Number of tests and total seconds of each tier, slowest tier first."""
    tiers = defaultdict(list)
    for test in tests:
        tiers[test.tier].append(test.seconds)
    slowest_first = sorted(tiers.items(), key=lambda tier: -sum(tier[1]))
    return table(("tier", "tests", "seconds"), [(name, len(of), f"{sum(of):.0f}") for name, of in slowest_first])


def by_file(tests: Iterable[TestDuration], most: int) -> str:
    """Total seconds of the slowest files."""
    files: dict[str, float] = defaultdict(float)
    for test in tests:
        files[test.file] += test.seconds
    slowest_first = sorted(files.items(), key=lambda file: -file[1])[:most]
    return table(("file", "seconds"), [(f"`{file}`", f"{seconds:.0f}") for file, seconds in slowest_first])


def by_test(tests: Iterable[TestDuration], most: int) -> str:
    """The slowest tests."""
    slowest_first = sorted(tests, key=lambda test: -test.seconds)[:most]
    return table(
        ("test", "seconds"), [(f"`{test.file}::{test.name}`", f"{test.seconds:.0f}") for test in slowest_first]
    )


def main() -> int:
    """Print the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description="Prints how long tests took, from a JUnit report of pytest.")
    parser.add_argument("report", type=Path)
    parser.add_argument("--most", type=int, default=25, help="how many files and tests to list (%(default)s)")
    arguments = parser.parse_args()
    tests = durations(arguments.report.read_text(encoding="utf-8"))
    print(by_tier(tests), by_file(tests, arguments.most), by_test(tests, arguments.most), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
