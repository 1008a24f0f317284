"""Workers of one command: kept running, and ended together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.cli.servers.gateway_workers import PORTS_EACH, worker_commands
from sharegroup.config import GatewayConfig

#: Says its number and process id, and ends in order on SIGTERM; number 1 ends by itself when there is a file "end".
WORKER = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
os.write(1, f"{sys.argv[1]} {os.getpid()}\\n".encode())  # in one piece: two of them write to one pipe
while not (sys.argv[1] == "1" and pathlib.Path("end").exists()):
    time.sleep(0.02)
sys.exit(3)
"""
PARENT = """
import sys
from sharegroup.cli.servers.gateway_workers import run_workers
sys.exit(run_workers([[sys.executable, "-c", sys.argv[1], number] for number in "01"]))
"""


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PARENT, WORKER]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment) as process:
        yield process
        process.kill()


def started(parent: subprocess.Popen[str]) -> tuple[str, int]:
    """(number, process id) of the worker that starts next."""
    assert parent.stdout is not None
    number, pid = parent.stdout.readline().split()
    return number, int(pid)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_they_end_with_their_parent_and_in_order(parent: subprocess.Popen[str]) -> None:
    workers = dict(started(parent) for _ in range(2))
    assert sorted(workers) == ["0", "1"]
    parent.terminate()
    assert parent.wait(60) == 0
    assert not any(is_running(pid) for pid in workers.values())


def test_one_that_is_killed_is_started_again(parent: subprocess.Popen[str]) -> None:
    workers = dict(started(parent) for _ in range(2))
    os.kill(workers["1"], signal.SIGKILL)
    number, pid = started(parent)
    assert number == "1"
    assert pid != workers["1"]
    assert is_running(workers["0"])
    parent.terminate()
    assert parent.wait(60) == 0


def test_one_that_ends_by_itself_ends_all(parent: subprocess.Popen[str], tmp_path: Path) -> None:
    workers = dict(started(parent) for _ in range(2))
    (tmp_path / "end").touch()
    assert parent.wait(60) == 3
    assert not is_running(workers["0"])


def test_each_has_ports_of_its_own() -> None:
    def ports(**keys: int) -> list[list[str]]:
        gateway = GatewayConfig.model_validate({f"gateway.{key}.port": port for key, port in keys.items()})
        return [command[-2:] for command in worker_commands(Path("a.yaml"), gateway, 2, "kafka:9092", True)]

    assert ports(listener=9192, metrics=9405) == [
        ["--port=9192", "--metrics-port=9405"],
        [f"--port={9192 + PORTS_EACH}", "--metrics-port=9406"],
    ]
    assert ports(listener=0) == [["--port=0", "--metrics-port=0"]] * 2
