"""B20: latency of single records through a gateway that reserves records, against Kafka's own share groups.

The same broker has both. A case runs on one side and then on the other, each with a topic and a group of its own, while
job and gateways stand still during Kafka's turn. Every record that was produced is accounted for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess, free_base_port
from tests.benchmarks.engine import Engine, write_config
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.kafka_groups import begin_at_earliest, set_group_config
from tests.benchmarks.latency_load import ACCEPT, EXPIRE, RELEASE, Load, measure_apart
from tests.benchmarks.process_tree import ProcessTree
from tests.integration.metric_scrapes import Scrape

NAME = "B20"
_LOCK_MS = 1_000
_GIVEN = "sharegroup_gateway_acquired_records_total"
_LOCK, _MIN_LOCK = "share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms"
BROKER_PROPERTIES = {_MIN_LOCK: str(_LOCK_MS)}


class _Case(NamedTuple):
    name: str
    members: int
    partitions: int
    rate: int
    reach_p50: float
    reach_p99: float
    gateways: int = 1
    mode: str = ACCEPT


_CASES = (
    _Case("10/s, 1 member, 1 partition", 1, 1, 10, 4, 12),
    _Case("100/s, 4 members, 4 partitions", 4, 4, 100, 4, 20),
    _Case("1,000/s, 4 members, 4 partitions", 4, 4, 1_000, 8, 40),
    _Case("1,000/s, 16 members, 1 partition", 16, 1, 1_000, 10, 30),
    _Case("1,000/s, 4 members, 1 partition, two gateways", 4, 1, 1_000, 10, 50, gateways=2),
    _Case("release to next delivery, 10/s", 1, 1, 10, 100, 500, mode=RELEASE),
    _Case("end of a lock of 1 s to next delivery", 2, 1, 1, 0, 0, mode=EXPIRE),
)


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Milliseconds of each case, on both sides."""
    seconds, warm_up_s, turns = (10.0, 5.0, 1) if quick else (30.0, 15.0, 2)
    all_turns = [(case, turn) for case in _CASES for turn in range(turns)]
    its, ours = (
        {(case, turn): f"{side}-{_CASES.index(case)}-{turn}" for case, turn in all_turns}
        for side in ("kafka", "gateway")
    )
    begin_at_earliest(kafka.bootstrap_servers, its.values())
    expiring = [name for (case, _), name in its.items() if case.mode == EXPIRE]
    set_group_config(kafka.bootstrap_servers, expiring, _LOCK, str(_LOCK_MS))
    config = _config(kafka.bootstrap_servers, directory / "engine", ours)
    details: dict[str, list[dict[str, Any]]] = {case.name: [] for case in _CASES}
    with Engine(config) as engine, ExitStack() as stack:
        ports = [free_base_port() for _ in range(2)]
        gateways = start_gateways(stack, config, directory, "gateway", ports)
        for turn in range(turns):
            for case in _CASES:
                load = Load(case.members, case.partitions, case.rate, seconds, warm_up_s, case.mode, _LOCK_MS)
                used = [gateway.bootstrap_servers for gateway in gateways[: case.gateways]]
                before = deliveries_by_way(ports)
                found = {"gateway": _measure(kafka, used, ours[case, turn], load)}
                found["gateway"]["ways"] = {way: count - before[way] for way, count in deliveries_by_way(ports).items()}
                with engine.processes.held(), ExitStack() as held:
                    for gateway in gateways:
                        held.enter_context(ProcessTree(gateway.pid).held())
                    found["kafka"] = _measure(kafka, [kafka.bootstrap_servers], its[case, turn], load)
                details[case.name].append(found)
    figures = [figure for case in _CASES for figure in _figures(case, details[case.name])]
    return figures, {"cases": details}


def start_gateways(
    stack: ExitStack, config: Path, directory: Path, name: str, ports: Sequence[int]
) -> list[GatewayProcess]:
    """Start a gateway for each of these metrics ports. It ends with the stack."""
    return [
        stack.enter_context(
            GatewayProcess(config, directory / f"{name}-{port}.log", options=[f"--metrics-port={port}"])
        )
        for port in ports
    ]


def deliveries_by_way(ports: Sequence[int]) -> dict[str, int]:
    """Return how many records the members of all gateways got, by way."""
    scrapes = [Scrape(port) for port in ports]
    return {way: int(sum(scrape.value(_GIVEN, way=way) for scrape in scrapes)) for way in ("batch", "reserved")}


def show(group: str, found: dict[str, Any]) -> None:
    """Print what came of a load, while others still run."""
    latencies = found["latencies_ms"]
    print(group, {key: found[key] for key in ("produced", "accepted", "accepted_again")}, len(latencies),
          *(f"p{percent} {percentile(latencies, percent):.1f}" for percent in (50, 99, 100)),
          file=sys.stderr, flush=True)  # fmt: skip


def _config(bootstrap_servers: str, directory: Path, groups: dict[tuple[_Case, int], str]) -> Path:
    group = {_MIN_LOCK: _LOCK_MS}
    gateway = {"gateway.reservations.enable": True}
    own = {name: {_LOCK: _LOCK_MS} for (case, _), name in groups.items() if case.mode == EXPIRE}
    return write_config(directory, bootstrap_servers, None, group, groups.values(), gateway, own)


def _measure(kafka: EmbeddedKafka, gateways: list[str], group: str, load: Load) -> dict[str, Any]:
    """The topic of a group has its name."""
    kafka.create_topic(group, partitions=load.partitions)
    found = measure_apart(kafka.bootstrap_servers, gateways, group, group, load)
    show(group, found)
    return found


def _figures(case: _Case, turns: list[dict[str, Any]]) -> list[Figure]:
    parts = {side: [ms for turn in turns for ms in turn[side]["latencies_ms"]] for side in ("gateway", "kafka")}
    lost = {side: sum(len(turn[side]["missing"]) for turn in turns) for side in parts}
    again = {side: sum(turn[side]["accepted_again"] for turn in turns) for side in parts}
    counts = ", ".join(
        f"{side}: {len(parts[side]):,} records, {lost[side]} missing, {again[side]} accepted twice, "
        f"slowest {percentile(parts[side], 100):.0f} ms"
        for side in parts
    )
    ways = [turn["gateway"]["ways"] for turn in turns]
    counts += (
        f"; by reservation {sum(way['reserved'] for way in ways):,}, by batch {sum(way['batch'] for way in ways):,}"
    )
    figures = []
    for percent, reach in ((50, case.reach_p50), (99, case.reach_p99)):
        mine, theirs = (percentile(parts[side], percent) for side in ("gateway", "kafka"))
        figures.append(
            Figure(NAME, f"{case.name}, p{percent}", mine, "ms", theirs, mine / theirs,
                   f"<= {reach} ms" if reach else "", mine <= reach if reach else None, f"{case.name}: {counts}")
        )  # fmt: skip
    return figures
