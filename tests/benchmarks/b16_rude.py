"""B16: a good member's polls while others are rude, against its polls when they are quiet, and the gateway's memory.

1,150 silent connections, 400 wrong passwords a second, 10 half-sent requests of 100 MB and metadata of 10,000
partitions 50 times a second, all at once, in a process of their own.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from sharegroup.security.authentication.credentials import hash_password
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.benchmarks import topics
from tests.benchmarks.engine import Engine, write_config
from tests.benchmarks.figures import Figure, percentile
from tests.harness.submitted_job import ROOT

NAME = "B16"
_REACH, _MEMORY_REACH_MB = 3.0, 400.0
#: For 10,000 logs.
BROKER_HEAP = "-Xmx2g"
_GROUP, _TOPIC = "good", "measured"
_PARTITIONS, _SIZE = 4, 100
_PASSWORD = "secret"
_SAMPLE_S = 0.2
_END_S = 60


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Polls of both times, the most memory, and what the rude clients got."""
    seconds, listed = (5.0, 1_000) if quick else (30.0, 10_000)
    kafka.create_topic(_TOPIC, partitions=_PARTITIONS)
    for number in range(10):
        kafka.create_topic(f"listed-{number}", partitions=listed // 10)
    topics.fill(kafka.bootstrap_servers, _TOPIC, _PARTITIONS, int(60_000 * seconds), _SIZE)  # more than it can take
    users = directory / "users.yaml"
    users.write_text("\n".join(hash_password(user, _PASSWORD) for user in ("good", "rude")), encoding="utf-8")
    secured = {"gateway.sasl.users.location": str(users)}
    config = write_config(directory / "engine", kafka.bootstrap_servers, groups=[_GROUP], gateway=secured)
    with Engine(config), GatewayProcess(config, directory / "gateway.log") as gateway:
        member = _Process("good_member", _member_options(gateway))
        with member, MostMemory(gateway.pid) as memory:
            member.await_ready()
            quiet = member.measured(seconds)
            quiet_mb = memory.most_mb
            with _Process("rude_clients", _rude_options(gateway)) as rude:
                rude.await_ready()
                attacked = member.measured(seconds)
                got = rude.ended()
    details: dict[str, object] = {"quiet": quiet, "attacked": attacked, "rude": got}
    return _figures(quiet, attacked, quiet_mb, memory.most_mb, got), details


def _figures(
    quiet: dict[str, Any], attacked: dict[str, Any], quiet_mb: float, most_mb: float, got: dict[str, int]
) -> list[Figure]:
    before, during = (percentile(side["polls_ms"], 99) for side in (quiet, attacked))
    ratio = during / before
    note = f"{len(quiet['polls_ms'])} and {len(attacked['polls_ms'])} polls; the rude ones got: "
    note += ", ".join(f"{count:,} {kind}" for kind, count in sorted(got.items()))
    what = "p99 of a good member's polls under rude clients, against its quiet one"
    return [
        Figure(NAME, what, during, "ms", before, ratio, f"<= {_REACH:g}", ratio <= _REACH, note),
        Figure(NAME, "records of the good member", attacked["records"], "", quiet["records"],
               attacked["records"] / quiet["records"]),
        Figure(NAME, "the most memory of the gateway, against before", most_mb, "MB", quiet_mb, most_mb / quiet_mb,
               f"<= {_MEMORY_REACH_MB:g} MB", most_mb <= _MEMORY_REACH_MB),
    ]  # fmt: skip


def _member_options(gateway: GatewayProcess) -> list[str]:
    return [
        f"--bootstrap-servers={gateway.bootstrap_servers}", f"--group={_GROUP}", f"--topic={_TOPIC}", "--user=good",
        f"--password={_PASSWORD}",
    ]  # fmt: skip


def _rude_options(gateway: GatewayProcess) -> list[str]:
    port = min(int(address.rpartition(":")[2]) for address in gateway.addresses.values())
    return [
        f"--port={port}", "--user=rude", f"--password={_PASSWORD}", "--silent=1150", "--guesses=400", "--half-sent=10",
        "--listings=50",
    ]  # fmt: skip


class _Process:
    """A module of this package as a child process, spoken to by its standard input and output."""

    def __init__(self, module: str, options: list[str]) -> None:
        self._module, self._command = module, [sys.executable, "-m", f"tests.benchmarks.{module}", *options]

    def __enter__(self) -> _Process:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def await_ready(self) -> None:
        """Until it says so."""
        if self._said().strip() != "ready":
            raise RuntimeError(f"{self._module} has ended")

    def measured(self, seconds: float) -> dict[str, Any]:
        """What it measures within so many seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._said())
        return found

    def ended(self) -> dict[str, int]:
        """End it; what it says of itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        found: dict[str, int] = json.loads(self._said())
        self._process.wait(_END_S)
        return found

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


class MostMemory:
    """Samples the resident memory of a process and its children inside the `with` block."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.most_mb = 0.0

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            processes = [self._root, *self._root.children(recursive=True)]
            self.most_mb = max(self.most_mb, sum(process.memory_info().rss for process in processes) / 1e6)

    def __enter__(self) -> MostMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
