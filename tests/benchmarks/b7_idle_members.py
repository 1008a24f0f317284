"""B7: memory and CPU of a gateway that 500 members with nothing to do are connected to."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.benchmarks.engine import Engine, write_config
from tests.benchmarks.figures import Figure
from tests.benchmarks.process_tree import ProcessTree
from tests.harness.submitted_job import ROOT

NAME = "B7"
_PARTITIONS = 4
_REACH_MB, _REACH_CPU = 300, 25


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """They join, then fetch with MaxWaitMs 500 and heartbeat as told, as clients do."""
    members, seconds = (50, 10) if quick else (500, 60)
    kafka.create_topic("idle", partitions=_PARTITIONS)
    config = write_config(directory / "engine", kafka.bootstrap_servers, group={"group.share.max.size": 1_000})
    with Engine(config), GatewayProcess(config, directory / "gateway.log") as gateway:
        host, _, port = gateway.bootstrap_servers.rpartition(":")
        load = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.idle_members", host, port, "idle", "idle", str(members)],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert load.stdout is not None
            line = load.stdout.readline().strip()
            if line != "fetching":
                raise RuntimeError(f"the members did not come to fetch: {line!r}")
            time.sleep(5)  # the last ones' first fetches
            cpu = ProcessTree(gateway.pid).cpu_percent(seconds)
            memory = psutil.Process(gateway.pid).memory_info().rss / 1e6
        finally:
            load.kill()
            load.wait()
    return [
        Figure(NAME, f"gateway with {members} idle members: memory", memory, "MB", reach=f"<= {_REACH_MB}",
               reached=memory <= _REACH_MB),
        Figure(NAME, f"gateway with {members} idle members: CPU", cpu, "% of a core", reach=f"<= {_REACH_CPU}",
               reached=cpu <= _REACH_CPU),
    ], {"members": members, "cpu": cpu, "memory_mb": memory}  # fmt: skip
