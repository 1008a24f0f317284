"""B8: the share consumer for Python, against kafka-python's KafkaConsumer and confluent-kafka's ShareConsumer.

One broker has both sides, which take turns. The records are in batches of 16 KB, the default of Kafka's producers, and
the clients have their default settings. A KafkaConsumer does not acknowledge single records.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.benchmarks import topics
from tests.benchmarks.engine import Engine, write_config
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.kafka_groups import begin_at_earliest
from tests.benchmarks.python_clients import EARLY_RECORDS, run_apart
from tests.harness.submitted_job import ROOT

NAME = "B8"
_TOPIC, _PARTITIONS, _SIZE, _BATCH_SIZE = "measured", 4, 200, 16_384
_WORKERS, _WORK_MS = 64, 20
#: Turns that are not counted. The broker's code for share groups has been compiled by then, and so has the job's.
_WARM_UP_TURNS = 6
_REACH, _HANDLER_REACH = 0.9, 0.97
_OURS, _KAFKA_PYTHON, _CONFLUENT = "sharegroup", "kafka-python", "confluent"

Turn = dict[str, dict[str, float]]


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Records per second at Kafka and through the gateway, the handler loop, and the memory of a long read."""
    records, repeats, many, seconds = (50_000, 1, 200_000, 3) if quick else (300_000, 5, 1_000_000, 15)
    kafka.create_topic(_TOPIC, partitions=_PARTITIONS)
    topics.fill(kafka.bootstrap_servers, _TOPIC, _PARTITIONS, many + records, _SIZE, _BATCH_SIZE)
    at_kafka = [
        _turn(kafka.bootstrap_servers, f"kafka-{turn}", records, [_OURS, _KAFKA_PYTHON, _CONFLUENT])
        for turn in range(_WARM_UP_TURNS + repeats)
    ][_WARM_UP_TURNS:]
    handled = [_handled(kafka.bootstrap_servers, turn, seconds) for turn in range(repeats)]
    begin_at_earliest(kafka.bootstrap_servers, ["long"])
    long = run_apart("consume", _OURS, kafka.bootstrap_servers, "long", _TOPIC, many)
    at_gateway = _at_gateway(kafka, directory, records, repeats)
    figures = [
        *_throughput("at Kafka", at_kafka, _KAFKA_PYTHON, _REACH),
        *_throughput("at Kafka", at_kafka, _CONFLUENT),
        *_throughput("through the gateway", at_gateway, _KAFKA_PYTHON, _REACH),
        *_throughput("through the gateway", at_gateway, _CONFLUENT),
        *_handler_figures(handled),
        Figure(
            NAME, f"resident memory after {many:,} records, against {EARLY_RECORDS:,}", long["late_mb"], "MB",
            long["early_mb"], long["late_mb"] / long["early_mb"],
        ),
    ]  # fmt: skip
    return figures, {"at_kafka": at_kafka, "handled": handled, "long": long, "at_gateway": at_gateway}


def _at_gateway(kafka: EmbeddedKafka, directory: Path, records: int, repeats: int) -> list[Turn]:
    """The first turns are not counted: the JVM of the job compiles in them."""
    throughput = yaml.safe_load((ROOT / "conf" / "throughput.yaml").read_text())
    names = [f"gateway-{turn}" for turn in range(_WARM_UP_TURNS + repeats)]
    groups = [f"{name}-{library}" for name in names for library in (_OURS, _CONFLUENT)]
    config = write_config(
        directory / "engine", kafka.bootstrap_servers, throughput.get("job"), throughput["group"], groups,
        throughput["gateway"],
    )  # fmt: skip
    with Engine(config), GatewayProcess(config, directory / "gateway.log") as gateway:
        libraries = [_OURS, _KAFKA_PYTHON, _CONFLUENT]
        turns = [_turn(gateway.bootstrap_servers, name, records, libraries, is_kafka=False) for name in names]
    return turns[_WARM_UP_TURNS:]


def _turn(servers: str, name: str, records: int, libraries: Sequence[str], is_kafka: bool = True) -> Turn:
    """Each library reads in a group of its own."""
    groups = {library: f"{name}-{library}" for library in libraries}
    if is_kafka:
        begin_at_earliest(servers, groups.values())
    found = {
        library: run_apart("consume", library, servers, group, _TOPIC, records) for library, group in groups.items()
    }
    _show(name, {library: f"{_rate(one):,.0f}/s, CPU {_cpu_us(one):.1f} us" for library, one in found.items()})
    return found


def _handled(servers: str, turn: int, seconds: int) -> Turn:
    begin_at_earliest(servers, [f"handled-{turn}"])
    found = {
        library: run_apart("handle", library, servers, f"handled-{turn}", _TOPIC, _WORKERS, _WORK_MS, seconds)
        for library in ("none", _OURS)
    }
    _show(
        f"handled-{turn}", {library: f"{one['share']:.3f}, CPU {one['cpu_s']:.1f} s" for library, one in found.items()}
    )
    return found


def _throughput(where: str, turns: list[Turn], against: str, reach: float | None = None) -> list[Figure]:
    ours, its = ([_rate(turn[library]) for turn in turns] for library in (_OURS, against))
    ratio = median([mine / theirs for mine, theirs in zip(ours, its, strict=True)])
    our_cpu, its_cpu = ([_cpu_us(turn[library]) for turn in turns] for library in (_OURS, against))
    cpu_ratio = median([mine / theirs for mine, theirs in zip(our_cpu, its_cpu, strict=True)])
    note = f"{len(turns)} turns"
    wanted = ("", None) if reach is None else (f">= {reach}", ratio >= reach)
    return [
        Figure(NAME, f"ShareConsumer {where}, against {against}", median(ours), "records/s", median(its), ratio,
               *wanted, note),
        Figure(NAME, f"its CPU for a record {where}, against {against}", median(our_cpu), "us", median(its_cpu),
               cpu_ratio),
    ]  # fmt: skip


def _handler_figures(turns: list[Turn]) -> list[Figure]:
    ours, its = (median([turn[library]["share"] for turn in turns]) for library in (_OURS, "none"))
    what = f"share of the work done by {_WORKERS} workers at {_WORK_MS} ms, against threads that only work"
    return [Figure(NAME, what, ours, "", its, ours / its, f">= {_HANDLER_REACH}", ours >= _HANDLER_REACH)]


def _rate(one: dict[str, float]) -> float:
    return one["records"] / one["seconds"]


def _cpu_us(one: dict[str, float]) -> float:
    return one["cpu_s"] * 1e6 / one["records"]


def _show(name: str, found: dict[str, str]) -> None:
    print(f"  {name}: {'; '.join(f'{library} {text}' for library, text in found.items())}", file=sys.stderr, flush=True)
