"""B2: records per second through one downstream job, against a plain Spark copy of the same topic to Delta.

Acquire, read, append to Delta, accept, from the member's assignment on. The share-group job is a process of its own on
the same machine and takes its share of the same cores; the plain copy has the machine to itself.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from sharegroup.testkit.embedded_kafka import EmbeddedKafka
from sharegroup.testkit.submitted_job import ROOT
from tests.benchmarks import topics
from tests.benchmarks.engine import Engine, submitted, write_config
from tests.benchmarks.figures import Figure, median

NAME = "B2"
_PARTITIONS = 4
_SIZE = 200
_REACH = 0.9
_WARM_UP = 20_000


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Records per second of both, in turns; the median of the turns' ratios."""
    records, repeats = (100_000, 1) if quick else (2_000_000, 3)
    for topic, count in (("warm-up", _WARM_UP), ("measured", records)):
        kafka.create_topic(topic, partitions=_PARTITIONS)
        topics.fill(kafka.bootstrap_servers, topic, _PARTITIONS, count, _SIZE)
    groups = [f"copy-{turn}" for turn in range(repeats + 1)]
    throughput = yaml.safe_load((ROOT / "conf" / "throughput.yaml").read_text())
    config = write_config(
        directory / "engine", kafka.bootstrap_servers, throughput.get("job"), throughput["group"], groups
    )
    result = directory / "copies.json"
    with Engine(config) as engine:
        arguments = [
            "--bootstrap-servers", kafka.bootstrap_servers, "--topics", "warm-up", "measured",
            "--records", str(_WARM_UP), str(records), "--groups", *groups,
            "--directory", str(directory), "--job-pid", str(engine.pid), "--result", str(result),
        ]  # fmt: skip
        with submitted("tests/benchmarks/copies.py", arguments, directory / "copies.log", driver_memory="2g") as copies:
            code = copies.wait(3_600)
            if code != 0:
                raise RuntimeError(f"the copies ended with {code}:\n{copies.log_tail()}")
    turns = json.loads(result.read_text())
    return _figures(records, turns), {"turns": turns}


def _figures(records: int, turns: list[dict[str, dict[str, float]]]) -> list[Figure]:
    share, plain = ([records / turn[kind]["seconds"] for turn in turns] for kind in ("share", "plain"))
    ratio = median([mine / its for mine, its in zip(share, plain, strict=True)])
    join_s = median([turn["share"]["join_s"] for turn in turns])
    note = f"{records:,} records of {_SIZE} bytes, {_PARTITIONS} partitions, {len(turns)} turns; join {join_s:.1f} s"
    return [
        Figure(NAME, "acquire - read - append to Delta - accept", median(share), "records/s", median(plain), ratio,
               f">= {_REACH}", ratio >= _REACH, note),
    ]  # fmt: skip
