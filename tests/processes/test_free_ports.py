"""A port that a process has chosen is not chosen by another process, even while no server listens on it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sharegroup.testing import ports
from sharegroup.testing.ports import HOST, free_port, free_ports

CHOOSE = "from sharegroup.testing.ports import free_port; print(free_port(), flush=True); input()"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """A process that chooses a port, prints it, and ends after a line of input."""
    with subprocess.Popen(
        [sys.executable, "-c", CHOOSE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_the_port_of_another_process_is_free_when_that_process_has_ended(
    other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert other.stdout is not None
    port = int(other.stdout.readline())
    monkeypatch.setattr(ports, "_PORTS", range(port, port + 1))
    with pytest.raises(OSError, match=f"^not enough free ports from {port} to {port}: 1 consecutive ones are needed$"):
        free_port()
    other.communicate("\n")
    assert free_port() == port


def test_a_process_does_not_choose_a_port_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(ports, "_PORTS", range(port, port + 1))
    with pytest.raises(OSError, match="not enough free ports"):
        free_port()


def test_consecutive_ports_are_chosen_around_a_port_that_a_server_has(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = free_ports(7)
    monkeypatch.setattr(ports, "_PORTS", chosen)
    monkeypatch.setattr(ports, "_chosen", set())
    with socket.create_server((HOST, chosen[3])):
        assert {free_ports(3)[0], free_ports(3)[0]} == {chosen[0], chosen[4]}
        with pytest.raises(OSError, match="3 consecutive ones are needed"):
            free_ports(3)
