"""A day of operating, as docs/operating.md has it: its lines are typed in order, in one shell, and do what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.storage import read_group_configs
from sharegroup.testing.delivery_audit import progress
from tests.harness.submitted_job import ROOT
from tests.integration.ports import named_ports
from tests.integration.shell import Shell, link_checkout, shell_blocks
from tests.integration.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.thorough

PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
GROUP, TABLES = "billing", "data/tables"
PORTS = (9092, 9191, 9192, 9193, 9404, 9405, 9180)
RECORDS, PER_PARTITION, AGAIN_FROM = 1_000, 500, 200
SHOWN = "http://127.0.0.1:9180"
POISONOUS = ("orders", 1, 308)


def blocks(section: str) -> list[str]:
    """The shell lines of a section."""
    return shell_blocks(PAGE, section)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """In a directory like a clone after set-up, but for what is written there."""
    link_checkout(tmp_path)
    with named_ports(*PORTS), Shell(tmp_path) as made:
        yield made


def test_the_day_goes_as_it_is_told(shell: Shell, tmp_path: Path) -> None:
    tables = str(tmp_path / TABLES)
    for lines in blocks("Deploy"):
        shell.type(lines)
    wait_until(lambda: progress(tables, GROUP).finished == RECORDS, "all is finished", PATIENCE_S)
    looks, metrics, page = blocks("Watch")
    said = shell.type(looks)
    assert re.search(rf"^{GROUP} +Stable", said, re.MULTILINE)
    assert {"worker-1", "worker-2"} <= set(re.findall(r"worker-\d", said))
    shell.type(page)
    wait_until(lambda: "worker-1" in shell.type(f"curl --silent {SHOWN}/group?group={GROUP}"), "the page shows it")
    assert f'sharegroup_lag_records{{group="{GROUP}"}} 0.0' in shell.type(metrics)

    ends, record = blocks("A record that nobody can handle")
    topic, partition, offset = POISONOUS
    wait_until(
        lambda: progress(tables, GROUP).outcomes["archived at the limit"] == 1, "its end is in the log", PATIENCE_S
    )
    assert re.search(rf"{topic}\W+{partition}\W+{offset}\W+{offset}\W+release\W+3\b", shell.type(ends))
    said = shell.type(record)
    assert len(re.findall("fetch", said)) == 3
    assert "no number" in said
    assert f">{offset}<" in shell.type(f"curl --silent {SHOWN}/dead-ends?group={GROUP}")

    (drain,) = blocks("Drain a worker")
    assert set(re.findall(r"worker-\d", shell.type(drain))) == {"worker-2"}

    (again,) = blocks("Process records again")
    said = shell.type(again)
    assert re.search(rf"^{GROUP} +{topic} +1 +{AGAIN_FROM}\b", said, re.MULTILINE)
    assert read_group_configs(tables)[GROUP] == {"share.delivery.count.limit": "5"}
    ends_of_log = {(topic, number): PER_PARTITION for number in (0, 1)}
    wait_until(lambda: progress(tables, GROUP).start_offsets == ends_of_log, "all is finished again", PATIENCE_S)

    (upgrade,) = blocks("Upgrade")
    wait_until(lambda: "worker-3" in shell.type(upgrade.splitlines()[-1]), "the worker is a member", PATIENCE_S)
    said = shell.type(upgrade)
    assert "worker-3" in said
    assert "Traceback" not in shell.printed
