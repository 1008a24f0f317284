"""B5 and B9: an unmodified ShareConsumer through the gateway, against the same client on Kafka's own share groups.

The same broker has both: its own share groups, and the topic that the gateway reads. In turns, each side standing still
while the other is measured; the client's settings are its defaults. The first turns are not counted: for minutes the
JVM of the job uses up to half of two cores to compile what it runs, which it does for months then.
"""

from __future__ import annotations

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

NAME, JOIN = "B5", "B9"
_TOPIC = "measured"
_PARTITIONS, _SIZE = 4, 200
_REACH, _JOIN_REACH = 0.8, 0.5
_TIMEOUT_S = 600


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Records per second of both, and their join times."""
    records, warm_up, repeats = (100_000, 1, 1) if quick else (6_000_000, 7, 5)
    kafka.create_topic(_TOPIC, partitions=_PARTITIONS)
    topics.fill(kafka.bootstrap_servers, _TOPIC, _PARTITIONS, records, _SIZE)
    ours = [f"gateway-{turn}" for turn in range(warm_up + repeats)]
    its = [f"kafka-{turn}" for turn in range(warm_up + repeats)]
    begin_at_earliest(kafka.bootstrap_servers, its)
    throughput = yaml.safe_load((ROOT / "conf" / "throughput.yaml").read_text())
    config = write_config(
        directory / "engine",
        kafka.bootstrap_servers,
        throughput.get("job"),
        throughput["group"],
        ours,
        throughput["gateway"],
    )
    turns: list[dict[str, dict[str, float]]] = []
    with Engine(config) as engine, GatewayProcess(config, directory / "gateway.log") as gateway:
        served = {"gateway": ProcessTree(gateway.pid), "job": engine.processes, "broker": ProcessTree(kafka.pid)}
        for mine, theirs in zip(ours, its, strict=True):
            before, batches = {name: tree.cpu_seconds() for name, tree in served.items()}, len(engine.batches())
            share = consume_apart(gateway.bootstrap_servers, mine, _TOPIC, records, _TIMEOUT_S)
            share |= {f"{name}_cpu_s": tree.cpu_seconds() - before[name] for name, tree in served.items()}
            share["micro_batches"] = len(engine.batches()) - batches
            with engine.processes.held(), served["gateway"].held():
                kafkas = consume_apart(kafka.bootstrap_servers, theirs, _TOPIC, records, _TIMEOUT_S)
            turns.append({"gateway": share, "kafka": kafkas})
    return _figures(records, turns[warm_up:]), {"turns": turns}


def _figures(records: int, turns: list[dict[str, dict[str, float]]]) -> list[Figure]:
    ours, its = ([records / turn[side]["seconds"] for turn in turns] for side in ("gateway", "kafka"))
    ratio = median([mine / theirs for mine, theirs in zip(ours, its, strict=True)])
    our_joins, its_joins = ([turn[side]["join_s"] for turn in turns] for side in ("gateway", "kafka"))
    join_ratio = median([mine / theirs for mine, theirs in zip(our_joins, its_joins, strict=True)])
    of_a_turn = {
        name: median([turn["gateway"][name] for turn in turns])
        for name in ("gateway_cpu_s", "job_cpu_s", "broker_cpu_s", "micro_batches")
    }
    note = (
        f"{records:,} records of {_SIZE} bytes, {_PARTITIONS} partitions, {len(turns)} turns; of one of ours: "
        + ", ".join(f"{name} {value:.1f}" for name, value in of_a_turn.items())
    )
    return [
        Figure(NAME, "ShareConsumer through the gateway, against Kafka's share groups", median(ours), "records/s",
               median(its), ratio, f">= {_REACH}", ratio >= _REACH, note),
        Figure(JOIN, "new member: subscribe to first record", median(our_joins), "s", median(its_joins), join_ratio,
               f"<= {_JOIN_REACH}", join_ratio <= _JOIN_REACH),
    ]  # fmt: skip
