"""B21: single records while a gateway or the job dies, and the cost of reservations that nothing comes to.

Members read 100 records/s through two gateways that reserve records. When one of them, or the job, is killed, the
slowest record shows how long the others wait. The job is started again at once, the gateway is not.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sharegroup.gateway.reservations.partition_reservation import MIN_SLICE
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess, free_base_port
from tests.benchmarks.b20_reservations import deliveries_by_way, show, start_gateways
from tests.benchmarks.engine import Engine, write_config
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.latency_load import Load, measure_apart
from tests.benchmarks.process_tree import ProcessTree
from tests.harness.submitted_job import ROOT
from tests.integration.metric_scrapes import Scrape
from tests.integration.waiting import wait_until

NAME = "B21"
_MEMBERS, _PARTITIONS, _RATE = 4, 4, 100
_IDLE_PARTITIONS, _REACH_CPU, _REACH_S = 1_000, 3, 3
_RESERVED_S = 180
_RESERVED = "sharegroup_gateway_reserved_records"


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The slowest record beside each kill, and the CPU use of a gateway with many reserved share-partitions."""
    kills, seconds, idle_s = (1, 15.0, 10.0) if quick else (5, 30.0, 60.0)
    groups = [f"{kind}-{number}" for kind in ("gateway", "job") for number in range(kills)]
    config = write_config(
        directory / "engine", kafka.bootstrap_servers, groups=groups, gateway={"gateway.reservations.enable": True}
    )
    load = Load(_MEMBERS, _PARTITIONS, _RATE, seconds, warm_up_s=10.0)
    details: dict[str, Any] = {}
    with ExitStack() as stack:
        jobs = [stack.enter_context(Engine(config))]

        def restart_job() -> None:
            jobs[-1].kill()
            jobs.append(stack.enter_context(Engine(config)))

        details["idle"] = _idle_cpu(kafka, config, directory, idle_s)
        details["gateway"] = [_kill(kafka, config, directory, f"gateway-{number}", load) for number in range(kills)]
        details["job"] = [
            _kill(kafka, config, directory, f"job-{number}", load, restart_job) for number in range(kills)
        ]
    return [
        _idle_figure(details["idle"]),
        *_gateway_figures(details["gateway"]),
        *_job_figures(details["job"]),
    ], details


def _kill(
    kafka: EmbeddedKafka,
    config: Path,
    directory: Path,
    group: str,
    load: Load,
    kill: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Kill the first of two gateways, or what `kill` does, when the measurement begins."""
    kafka.create_topic(group, partitions=load.partitions)
    with ExitStack() as stack:
        ports = [free_base_port() for _ in range(2)]
        gateways = start_gateways(stack, config, directory, group, ports)
        servers = [gateway.bootstrap_servers for gateway in gateways]
        during: list[int] = []

        def fault() -> None:
            before = deliveries_by_way(ports)["reserved"]
            (kill or gateways[0].kill)()
            if kill is not None:
                during.append(deliveries_by_way(ports)["reserved"] - before)

        found = measure_apart(kafka.bootstrap_servers, servers, group, group, load, fault)
    found["during_fault"] = sum(during)
    show(group, found)
    return found


def _idle_cpu(kafka: EmbeddedKafka, config: Path, directory: Path, seconds: float) -> dict[str, float]:
    """One member of many partitions, to which nothing comes."""
    kafka.create_topic("idle", partitions=_IDLE_PARTITIONS)
    port = free_base_port()
    with GatewayProcess(config, directory / "idle.log", options=[f"--metrics-port={port}"]) as gateway:
        host, _, base_port = gateway.bootstrap_servers.rpartition(":")
        command = [sys.executable, "-m", "tests.benchmarks.idle_members", host, base_port, "idle", "idle", "1"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as member:
            try:
                reserved = MIN_SLICE * _IDLE_PARTITIONS
                wait_until(lambda: Scrape(port).value(_RESERVED) >= reserved, "everything is reserved", _RESERVED_S)
                return {"gateway_cpu": ProcessTree(gateway.pid).cpu_percent(seconds)}
            finally:
                member.kill()


def _idle_figure(found: dict[str, float]) -> Figure:
    cpu = found["gateway_cpu"]
    what = f"CPU of a gateway with reservations in {_IDLE_PARTITIONS:,} share-partitions that nothing comes to"
    return Figure(NAME, what, cpu, "% of a core", None, None, f"<= {_REACH_CPU}", cpu <= _REACH_CPU)


def _gateway_figures(kills: list[dict[str, Any]]) -> list[Figure]:
    slowest = max(percentile(found["latencies_ms"], 100) for found in kills) / 1000
    what = f"SIGKILL of one of two gateways at {_RATE}/s, slowest record"
    return [Figure(NAME, what, slowest, "s", None, None, f"<= {_REACH_S}", slowest <= _REACH_S, _counts(kills))]


def _job_figures(kills: list[dict[str, Any]]) -> list[Figure]:
    slowest = max(percentile(found["latencies_ms"], 100) for found in kills) / 1000
    during = sum(found["during_fault"] for found in kills) / len(kills)
    return [
        Figure(NAME, f"SIGKILL of the job at {_RATE}/s, slowest record", slowest, "s", note=_counts(kills)),
        Figure(NAME, "records delivered from reservations until the job runs again", during, "records"),
    ]


def _counts(kills: list[dict[str, Any]]) -> str:
    missing = sum(len(found["missing"]) for found in kills)
    again = sum(found["accepted_again"] for found in kills)
    return f"{len(kills)} kills, {missing} records missing, {again} accepted twice"
