"""The tutorial: its commands run in order, in one shell, and print what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.testing.delivery_audit import progress
from tests.harness.submitted_job import ROOT
from tests.integration.ports import named_ports
from tests.integration.shell import Shell, link_checkout, shell_blocks
from tests.integration.waiting import wait_until

pytestmark = pytest.mark.thorough

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
PORTS = (9092, 9191, 9192, 9193, 9404, 9405)


def test_the_tutorial_runs(tmp_path: Path) -> None:
    link_checkout(tmp_path)
    with named_ports(*PORTS), Shell(tmp_path) as shell:
        for section in ("Install", "Start a broker", "Start the job", "Start a gateway", "Produce some orders"):
            for lines in shell_blocks(PAGE, section):
                shell.type(lines)

        (consumer,) = shell_blocks(PAGE, "Write a consumer")
        printed = shell.type(consumer)
        assert "accepted 90, released 30" in printed
        assert [printed.count(f"failed, delivery {count}") for count in (1, 2, 3, 4)] == [10, 10, 10, 0]

        tables = str(tmp_path / "data" / "tables")
        wait_until(lambda: progress(tables, "billing").finished == 100, "the outcomes are in the tables")
        lag, outcomes = shell_blocks(PAGE, "Look at the state")
        assert "orders" in shell.type(lag)
        rows = [line for line in shell.type(outcomes).splitlines() if "ACKNOWLEDGED" in line or "ARCHIVED" in line]
        assert [[cell.strip() for cell in row.strip("│ ").split("│")] for row in rows] == [
            ["ACKNOWLEDGED", "accept", "1", "90"],
            ["ARCHIVED", "release", "3", "10"],
        ]

        (stop,) = shell_blocks(PAGE, "Stop everything")
        shell.type(stop)
