"""Child processes with their log in a file."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from sharegroup.testing.logged_process import LoggedProcess, LoggedProcessError

FOR_EVER = "import time; time.sleep(600)"


def python(tmp_path: Path, code: str, **settings: dict[str, str]) -> LoggedProcess:
    return LoggedProcess("server", [sys.executable, "-u", "-c", code], tmp_path / "log", **settings)  # type: ignore[arg-type]


def test_a_line_of_the_log_is_awaited_as_a_whole_and_from_where_one_says(tmp_path: Path) -> None:
    said = "import os, sys; sys.stderr.write('ready ' + os.environ['NAME'] + '\\n'); "
    with python(tmp_path, said + FOR_EVER, environment={"NAME": "one"}) as process:
        assert process.await_log("ready") == "ready one\n"
        assert process.exit_code is None
        length = process.log_path.stat().st_size
        with pytest.raises(LoggedProcessError, match=r"(?s)found no 'ready' in the server's log in 0 s:.*ready one"):
            process.await_log("ready", timeout_s=0, since=length)


def test_a_process_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    with (
        python(tmp_path, "print('why'); raise SystemExit(3)") as process,
        pytest.raises(LoggedProcessError, match=r"(?s)the server ended with exit code 3:.*why"),
    ):
        process.await_log("ready")


def test_what_is_said_last_counts_although_the_process_has_ended(tmp_path: Path) -> None:
    with python(tmp_path, "print('ready')") as process:
        assert process.wait() == 0
        assert process.await_log("ready") == "ready\n"


def test_it_ends_as_the_process_ends(tmp_path: Path) -> None:
    with python(tmp_path, "print('ready'); " + FOR_EVER) as process:
        process.await_log("ready")
        with pytest.raises(LoggedProcessError, match="the server still runs after 0 s"):
            process.wait(0)
        assert process.terminate() == -15


def test_killed_with_what_is_below_it(tmp_path: Path) -> None:
    child = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {FOR_EVER!r}]).pid, 'is ready'); "
    with python(tmp_path, child + FOR_EVER) as process:
        pid = int(process.await_log("is ready").split()[0])
        assert psutil.pid_exists(pid)
        process.kill()
        assert process.exit_code == -9
    assert not psutil.pid_exists(pid)


def test_whoever_waits_otherwise_asks_what_was_said_and_hears_of_the_end(tmp_path: Path) -> None:
    with python(tmp_path, "print('ready'); input()") as process:
        process.wait()
        assert process.has_logged("ready")
        with pytest.raises(LoggedProcessError, match=r"(?s)the server ended with exit code 1:.*EOFError"):
            process.has_logged("gone")
    with python(tmp_path, FOR_EVER) as process:
        assert not process.has_logged("gone")
        process.check_alive()
