"""Set-up's steps: silent when they succeed; what they said last when they fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

QUIETLY = Path(__file__).resolve().parents[2] / "scripts" / "quietly.sh"


def run(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    command = [str(QUIETLY), "sh", "-c", script]
    return subprocess.run(
        command, env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}, capture_output=True, text=True
    )


def test_a_step_that_succeeds_shows_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "echo Collecting this; echo and that >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_one_that_fails_shows_its_last_lines_and_keeps_its_exit_code(tmp_path: Path) -> None:
    done = run(tmp_path, "seq 1 100; echo no such package >&2; exit 3")
    assert done.returncode == 3
    said = done.stderr.splitlines()
    assert said[0] == "72"
    assert said[-2:] == [
        "no such package",
        "setup: this failed with exit code 3: sh -c seq 1 100; echo no such package >&2; exit 3",
    ]
    assert list(tmp_path.iterdir()) == []
