"""B2: records per second through one downstream job, against a plain Spark copy of the same topic to Delta.

Acquire, read, append to Delta, accept, from the member's assignment on. The share-group job is a process of its own on
the same machine and takes its share of the same cores; the plain copy has the machine to itself. Once everything is one
micro-batch, on both sides, which shows what a start costs; and once there are several, of what `ShareConsumer` takes by
default.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import yaml

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.benchmarks import topics
from tests.benchmarks.engine import Engine, submitted, write_config
from tests.benchmarks.figures import Figure, median
from tests.harness.submitted_job import ROOT

NAME = "B2"
_PARTITIONS = 4
_SIZE = 200
_REACH = 0.9
_WARM_UP = 20_000
#: For the JIT compilers of three JVMs.
_WARM_UP_TURNS = 4


class _Copies(NamedTuple):
    """What is copied, in micro-batches of at most so many records, how often."""

    name: str
    records: int
    batch: int
    turns: int

    @property
    def groups(self) -> list[str]:
        return [f"{self.name}-{turn}" for turn in range(_WARM_UP_TURNS + self.turns)]


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """Records per second of both, in turns; the median of the turns' ratios."""
    cases = [_Copies("one", 2_000_000, 2_000_000, 5), _Copies("several", 6_000_000, 1_000_000, 3)]
    if quick:
        cases = [_Copies("one", 100_000, 100_000, 1), _Copies("several", 200_000, 50_000, 1)]
    for topic, count in [("warm-up", _WARM_UP), *((case.name, case.records) for case in cases)]:
        kafka.create_topic(topic, partitions=_PARTITIONS)
        topics.fill(kafka.bootstrap_servers, topic, _PARTITIONS, count, _SIZE)
    throughput = yaml.safe_load((ROOT / "conf" / "throughput.yaml").read_text())
    groups = [group for case in cases for group in case.groups]
    config = write_config(
        directory / "engine", kafka.bootstrap_servers, throughput.get("job"), throughput["group"], groups
    )
    with Engine(config) as engine:
        turns = {case: _copied(kafka, engine, case, directory / case.name) for case in cases}
    return [_figure(case, turns[case]) for case in cases], {"turns": {case.name: turns[case] for case in cases}}


def _copied(kafka: EmbeddedKafka, engine: Engine, case: _Copies, directory: Path) -> list[dict[str, dict[str, float]]]:
    directory.mkdir()
    result = directory / "copies.json"
    arguments = [
        "--bootstrap-servers", kafka.bootstrap_servers, "--topics", "warm-up", case.name,
        "--records", str(_WARM_UP), str(case.records), "--batch", str(case.batch), "--groups", *case.groups,
        "--warm-up-turns", str(_WARM_UP_TURNS),
        "--directory", str(directory), "--job-pid", str(engine.pid), "--result", str(result),
    ]  # fmt: skip
    with submitted("tests/benchmarks/copies.py", arguments, directory / "copies.log", driver_memory="2g") as copies:
        code = copies.wait(3_600)
        if code != 0:
            raise RuntimeError(f"the copies ended with {code}:\n{copies.log_tail()}")
    return json.loads(result.read_text())  # type: ignore[no-any-return]


def _figure(case: _Copies, turns: list[dict[str, dict[str, float]]]) -> Figure:
    share, plain = ([case.records / turn[kind]["seconds"] for turn in turns] for kind in ("share", "plain"))
    ratio = median([mine / its for mine, its in zip(share, plain, strict=True)])
    join_s = median([turn["share"]["join_s"] for turn in turns])
    what = f"acquire - read - append to Delta - accept, in {case.name}"
    note = (
        f"{case.records:,} records of {_SIZE} bytes in micro-batches of {case.batch:,}, {_PARTITIONS} partitions, "
        f"{len(turns)} turns; join {join_s:.1f} s"
    )
    return Figure(NAME, what, median(share), "records/s", median(plain), ratio, f">= {_REACH}", ratio >= _REACH, note)
