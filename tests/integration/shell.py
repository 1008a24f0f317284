"""A shell in which a test runs the commands of a page, one block after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import psutil

from tests.harness.submitted_job import ROOT
from tests.integration.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from typing import Self


def shell_blocks(page: str, section: str) -> list[str]:
    """Return the blocks of shell commands below a heading of the second level."""
    (text,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    return re.findall(r"^```bash\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def link_checkout(directory: Path) -> None:
    """Make a directory look like a clone after set-up."""
    for name in ("jobs", "conf", "sharegroup"):
        (directory / name).symlink_to(ROOT / name)
    (directory / ".venv").symlink_to(sys.prefix)


class Shell:
    """A user's shell in a directory. The processes that its commands start run until `close`."""

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
        """Run commands, wait for the last one to succeed, and return what was printed meanwhile."""
        self._typed += 1
        before, done = self._log_path.stat().st_size, self._directory / f"done-{self._typed}"
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{lines}\necho $? > {done}\n")
        self._bash.stdin.flush()
        wait_until(lambda: done.exists() and bool(done.read_text()), f"done: {lines}", PATIENCE_S)
        printed = self._log_path.read_bytes()[before:].decode()
        assert done.read_text() == "0\n", f"{lines}\n{printed}"
        return printed

    @property
    def printed(self) -> str:
        """Everything that was printed so far."""
        return self._log_path.read_text()

    def close(self) -> None:
        """Kill the shell and every process that it started."""
        started = psutil.Process(self._bash.pid).children(recursive=True)
        self._bash.kill()
        for process in started:
            if process.is_running():
                process.kill()
        psutil.wait_procs(started)
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
