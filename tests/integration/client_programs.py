"""Clients as programs of their own, which know nothing but an address: what starts them, and what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Protocol

import psutil
import pytest

from tests.integration.java_tool import tool_command
from tests.integration.waiting import PATIENCE_S, wait_until

_ROOT = Path(__file__).parents[2]
_GO_SOURCE = Path(__file__).with_name("franz_go")
_GO_BUILD_S = 600
#: The release that has all protocols.
NEWEST = "4.3"


class Client(Protocol):
    """A library with a program that writes the lines of its input, and one that reads so many values."""

    def write(self, servers: str, topic: str) -> list[str]:
        """The command line."""

    def read(self, servers: str, topic: str, group: str, count: int) -> list[str]:
        """The command line."""


class Java(NamedTuple):
    """Kafka's console tools. `protocol` is that of consumer groups, None: a share consumer."""

    protocol: str | None

    def write(self, servers: str, topic: str) -> list[str]:
        return tool_command(
            "org.apache.kafka.tools.ConsoleProducer", ["--bootstrap-server", servers, "--topic", topic, "--sync"]
        )

    def read(self, servers: str, topic: str, group: str, count: int) -> list[str]:
        common = ["--bootstrap-server", servers, "--topic", topic, "--group", group, "--max-messages", str(count)]
        if self.protocol is None:
            return tool_command("org.apache.kafka.tools.consumer.ConsoleShareConsumer", common)
        how = ["--from-beginning", "--command-property", f"group.protocol={self.protocol}"]
        return tool_command("org.apache.kafka.tools.consumer.ConsoleConsumer", [*common, *how])


class Python(NamedTuple):
    """`library` as `python_client` has it."""

    library: str
    verb: str = "consume"

    def write(self, servers: str, topic: str) -> list[str]:
        return [sys.executable, "-m", "tests.integration.python_client", self.library, "produce", servers, topic]

    def read(self, servers: str, topic: str, group: str, count: int) -> list[str]:
        command = [sys.executable, "-m", "tests.integration.python_client", self.library, self.verb]
        return [*command, servers, topic, group, str(count)]


class FranzGo(NamedTuple):
    """The program below `franz_go`, built when it is asked for; the test is skipped where there is no Go."""

    verb: str = "consume"

    def write(self, servers: str, topic: str) -> list[str]:
        return [franz_go(), "produce", servers, topic]

    def read(self, servers: str, topic: str, group: str, count: int) -> list[str]:
        return [franz_go(), self.verb, servers, topic, group, str(count)]


class Kcat(NamedTuple):
    """The test is skipped where it is not installed. It reads ahead in its input: each line has one of its own."""

    def write(self, servers: str, topic: str) -> list[str]:
        each_line = 'while read -r line; do echo "$line" | "$0" "$@" || exit 1; done'
        return ["sh", "-c", each_line, _kcat(), "-P", "-b", servers, "-t", topic]

    def read(self, servers: str, topic: str, group: str, count: int) -> list[str]:
        how = ["-X", "auto.offset.reset=earliest", "-c", str(count), "-u", "-q"]
        return [_kcat(), "-b", servers, *how, "-G", group, topic]


#: By the names that docs/compatibility.md has for them. `-848`: consumer groups by their newer protocol (KIP-848).
CLIENTS: dict[str, Client] = {
    "java-classic": Java("classic"),
    "java-848": Java("consumer"),
    "librdkafka-classic": Python("librdkafka"),
    "librdkafka-848": Python("librdkafka-848"),
    "kafka-python": Python("kafka-python"),
    "franz-go": FranzGo(),
    "kcat": Kcat(),
    "java-share": Java(None),
    "librdkafka-share": Python("librdkafka", "share"),
    "franz-go-share": FranzGo("share"),
}


def franz_go() -> str:
    """Where the program is."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go to build a client of franz-go with")
    program = _ROOT / "build" / "franz-go"  # Go builds it anew only when something has changed
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=_GO_SOURCE, check=True, timeout=_GO_BUILD_S)
    return str(program)


def _kcat() -> str:
    found = shutil.which("kcat")
    if found is None:
        pytest.skip("kcat is not installed")
    return found


class Program:
    """A running program: its input, the lines that it has said, and whom it talks to. It does not outlive the block."""

    def __init__(self, command: Sequence[str], directory: Path, name: str) -> None:
        self._out, self._errors = directory / f"{name}.out", directory / f"{name}.err"
        with self._out.open("w") as out, self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=errors, text=True, cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
            )  # fmt: skip

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def say(self, *lines: str) -> None:
        """Give it lines."""
        given: IO[str] | None = self._process.stdin
        assert given is not None
        given.writelines(f"{line}\n" for line in lines)
        given.flush()

    def lines(self) -> list[str]:
        """What it has said so far."""
        return self._out.read_text().splitlines()

    def await_lines(self, count: int) -> None:
        """Wait until it has said so many; AssertionError when it fails before that."""

        def has_said() -> bool:
            has_ended = self._process.poll() is not None
            are_there = len(self.lines()) >= count
            assert are_there or not has_ended, self._about()
            return are_there

        wait_until(has_said, f"{count} lines of {self._process.args}", PATIENCE_S)

    def peers(self) -> set[int]:
        """The ports that it is connected to."""
        connections = psutil.Process(self._process.pid).net_connections("tcp")
        return {connection.raddr.port for connection in connections if connection.raddr}

    def end(self) -> None:
        """No more input is to come; it ends by itself, without an error."""
        try:
            self._process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it goes on: {self._about()}") from None
        assert self._process.returncode == 0, self._about()

    def _about(self) -> str:
        return f"{self._process.args}: {self._process.returncode}, {self._errors.read_text()[-3000:]}"
