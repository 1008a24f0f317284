"""A day of operating, as docs/operating.md has it: its lines are typed in order, in one shell, and do what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sharegroup.tables import read_group_configs
from sharegroup.testkit.delivery_audit import progress
from sharegroup.testkit.submitted_job import ROOT
from tests.integration.ports import named_ports
from tests.integration.waiting import wait_until

pytestmark = pytest.mark.thorough

PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
GROUP, TABLES = "billing", "data/tables"
PORTS = (9092, 9191, 9192, 9193, 9404, 9405, 9180)
RECORDS, PER_PARTITION, AGAIN_FROM = 1_000, 500, 200
SHOWN = "http://127.0.0.1:9180"
POISONOUS = ("orders", 1, 308)
PATIENCE_S = 300
TIMEOUT_S = 900


def blocks(section: str) -> list[str]:
    """The shell lines of a section."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return re.findall(r"^```bash\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


class Shell:
    """An operator's shell in a directory; what its commands start goes on until `close`."""

    def __init__(self, directory: Path) -> None:
        self._log_path = directory / "shell.log"
        self._directory = directory
        with self._log_path.open("wb") as log:
            self._bash = subprocess.Popen(
                ["bash"],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._typed = 0

    def type(self, lines: str) -> str:
        """Type lines; what is said until the last of them is done."""
        self._typed += 1
        before, done = self._log_path.stat().st_size, self._directory / f"done-{self._typed}"
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{lines}\necho $? > {done}\n")
        self._bash.stdin.flush()
        wait_until(lambda: done.exists() and bool(done.read_text()), f"done: {lines}", PATIENCE_S)
        said = self._log_path.read_bytes()[before:].decode()
        assert done.read_text() == "0\n", f"{lines}\n{said}"
        return said

    @property
    def said(self) -> str:
        """All that was said so far."""
        return self._log_path.read_text()

    def close(self) -> None:
        """End the shell, and whatever still runs."""
        started = psutil.Process(self._bash.pid).children(recursive=True)
        self._bash.kill()
        for process in started:
            if process.is_running():
                process.kill()
        psutil.wait_procs(started)
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.wait()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """In a directory like a clone after set-up, but for what is written there."""
    for name in ("jobs", "conf", "sharegroup"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    with named_ports(*PORTS):
        made = Shell(tmp_path)
        yield made
        made.close()


@pytest.mark.timeout(TIMEOUT_S)
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
    assert "Traceback" not in shell.said
