"""B11: CPU time of the gateway for what is read through it, and of the whole system, against Kafka's.

Two share consumers at a time, each in a group of its own, read a topic to its end: in turns through the gateway (no
TLS), and on the same broker's own share groups while job and gateway stand still. CPU time is of whole processes, the
clients' left out: job, gateway and broker on one side, the broker on the other. A millicore a MB/s is a millisecond of
CPU time a MB of record values.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import yaml

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.benchmarks import topics
from tests.benchmarks.engine import Engine, write_config
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.kafka_groups import begin_at_earliest
from tests.benchmarks.process_tree import ProcessTree
from tests.benchmarks.share_consume import consume_apart
from tests.harness.submitted_job import ROOT

NAME = "B11"
_TOPIC = "measured"
_PARTITIONS, _SIZE, _CLIENTS = 4, 1_000, 2
_REACH_MILLICORES = 3.0
_TIMEOUT_S = 600


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Millicores a MB/s, and seconds of CPU time a million records."""
    records, warm_up, repeats = (50_000, 1, 1) if quick else (500_000, 4, 5)
    kafka.create_topic(_TOPIC, partitions=_PARTITIONS)
    topics.fill(kafka.bootstrap_servers, _TOPIC, _PARTITIONS, records, _SIZE)
    ours, its = (_groups(side, warm_up + repeats) for side in ("gateway", "kafka"))
    begin_at_earliest(kafka.bootstrap_servers, chain(*its))
    throughput = yaml.safe_load((ROOT / "conf" / "throughput.yaml").read_text())
    config = write_config(
        directory / "engine",
        kafka.bootstrap_servers,
        throughput.get("job"),
        throughput["group"],
        [*chain(*ours)],
        throughput["gateway"],
    )
    turns: list[dict[str, dict[str, float]]] = []
    with Engine(config) as engine, GatewayProcess(config, directory / "gateway.log") as gateway:
        served = {"gateway": ProcessTree(gateway.pid), "job": engine.processes, "broker": ProcessTree(kafka.pid)}
        for mine, theirs in zip(ours, its, strict=True):
            turn = {"ours": _cpu_of_reading(gateway.bootstrap_servers, mine, records, served)}
            with engine.processes.held(), served["gateway"].held():
                turn["its"] = _cpu_of_reading(kafka.bootstrap_servers, theirs, records, served)
            turns.append(turn)
    return _figures(_CLIENTS * records, turns[warm_up:]), {"turns": turns}


def _groups(side: str, turns: int) -> list[list[str]]:
    return [[f"{side}-{turn}-{client}" for client in range(_CLIENTS)] for turn in range(turns)]


def _cpu_of_reading(
    bootstrap_servers: str, groups: list[str], records: int, processes: dict[str, ProcessTree]
) -> dict[str, float]:
    """Each group reads everything, all at once: {process: seconds of CPU time}, and the `seconds` of the slowest."""
    before = {name: tree.cpu_seconds() for name, tree in processes.items()}
    with ThreadPoolExecutor(len(groups)) as clients:
        read = list(
            clients.map(lambda group: consume_apart(bootstrap_servers, group, _TOPIC, records, _TIMEOUT_S), groups)
        )
    used = {name: tree.cpu_seconds() - before[name] for name, tree in processes.items()}
    return {**used, "seconds": max(client["seconds"] for client in read)}


def _figures(records: int, turns: list[dict[str, dict[str, float]]]) -> list[Figure]:
    megabytes, millions = records * _SIZE / 1e6, records / 1e6
    gateway = median([1000 * turn["ours"]["gateway"] / megabytes for turn in turns])
    parts = {name: median([turn["ours"][name] for turn in turns]) / millions for name in ("job", "gateway", "broker")}
    ours = median([sum(turn["ours"][name] for name in parts) for turn in turns]) / millions
    its = median([turn["its"]["broker"] for turn in turns]) / millions
    rates = [median([megabytes / turn[side]["seconds"] for turn in turns]) for side in ("ours", "its")]
    split = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items())
    note = (
        f"{_CLIENTS} consumers, {records:,} records of {_SIZE} bytes a turn, {len(turns)} turns; "
        f"{rates[0]:.0f} MB/s through the gateway, {rates[1]:.0f} on Kafka's; a million records: {split}"
    )
    return [
        Figure(NAME, "CPU of the gateway for what consumers read through it", gateway, "millicores a MB/s", None, None,
               f"<= {_REACH_MILLICORES:g}", gateway <= _REACH_MILLICORES, note),
        Figure(NAME, "CPU of job, gateway and broker, against the broker's with its own share groups", ours,
               "s a million records", its, ours / its),
    ]  # fmt: skip
