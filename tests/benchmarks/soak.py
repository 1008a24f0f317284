"""python -m tests.benchmarks.soak [--minutes 60]: the job under a steady load for an hour; a report of its tenths.

A member reads 500 share-partitions, to which 1,000 records a second are produced. What grows with history would show
in the last tenth of the time against the second one (the first is warm-up): the time of a micro-batch, memory, and the
disk that tables and checkpoint take up. A JVM takes memory up to its limit before it collects garbage, so what it has
is no sign of what it needs: in the middle of each tenth it is asked to collect (`jcmd`, of a JDK), and looked at then.
The report goes to tests/reports/soak.md, with the figures beside it as JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.benchmarks.engine import Engine, row_topics, write_config
from tests.benchmarks.figures import median, percentile
from tests.benchmarks.machine import machine
from tests.benchmarks.member_load import MemberLoad
from tests.benchmarks.spark_progress import MicroBatch
from tests.benchmarks.steady_producer import produced
from tests.harness.submitted_job import ROOT

_PARTITIONS, _RATE = 500, 1_000
_SAMPLE_S = 10.0
_REACH = 1.1
_GROUP_ID = "soak"
_REPORTS = ROOT / "tests" / "reports"


class Sample(NamedTuple):
    """At a time (seconds since the start): memory of the driver (JVM and Python) and of the workers; disk. In MB.

    `is_collected`: right after the JVM was asked to collect its garbage."""

    at_s: float
    driver_mb: float
    workers_mb: float
    disk_mb: float
    is_collected: bool


@dataclass(frozen=True)
class Tenth:
    """A tenth of the time. Micro-batches in ms; memory in MB, median, `collected_mb` the driver's after a collection;
    disk in MB a minute, by its growth."""

    batches: int
    batch_p50: float
    batch_p99: float
    driver_mb: float
    collected_mb: float
    workers_mb: float
    disk_mb_a_minute: float
    records: int


def main() -> int:
    """Run, write the report, print it; 1 when the last tenth is not what the second was."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="%(default)s")
    parser.add_argument("--report", type=Path, default=_REPORTS / "soak.md", help="%(default)s")
    given = parser.parse_args()
    jcmd = shutil.which("jcmd")
    if jcmd is None:
        parser.error("there is no jcmd here: it comes with a JDK")
    with tempfile.TemporaryDirectory(prefix="sharegroup-soak-") as directory, EmbeddedKafka() as kafka:
        tenths = _run(kafka, Path(directory), 60 * given.minutes, jcmd)
    ratios = _ratios(tenths)
    text = _report(given.minutes, tenths, ratios)
    given.report.parent.mkdir(parents=True, exist_ok=True)
    given.report.write_text(text)
    figures = {"machine": machine(), "tenths": [asdict(tenth) for tenth in tenths], "ratios": ratios}
    given.report.with_suffix(".json").write_text(json.dumps(figures, indent=2) + "\n")
    print(text)
    return 0 if all(ratio <= _REACH for ratio in ratios.values()) else 1


def _run(kafka: EmbeddedKafka, directory: Path, seconds: float, jcmd: str) -> list[Tenth]:
    kafka.create_topic("soak", partitions=_PARTITIONS)
    names = row_topics("soak")
    config = write_config(directory, kafka.bootstrap_servers, {"operator.shards": 2, **names}, groups=[_GROUP_ID])
    samples: list[Sample] = []
    number = int(seconds / _SAMPLE_S)
    collections = {max(1, round(number * (tenth + 0.5) / 10)) for tenth in range(10)}
    with (
        Engine(config) as engine,
        MemberLoad(kafka.bootstrap_servers, _GROUP_ID, "soak", _PARTITIONS, 500, names) as member,
        produced(kafka.bootstrap_servers, "soak", _PARTITIONS, _RATE),
    ):
        member.ask(range(_PARTITIONS))
        begin, begin_ms, records = time.monotonic(), time.time() * 1000, [0]
        for due in range(1, number + 1):
            time.sleep(max(0.0, begin + due * _SAMPLE_S - time.monotonic()))  # the measured interval itself
            if is_collected := due in collections:
                subprocess.run([jcmd, str(engine.pid), "GC.run"], check=True, stdout=subprocess.DEVNULL)
            memory = engine.processes.memory()
            driver_mb = memory.jvm_mb + memory.driver_python_mb
            disk_mb = _disk_mb(directory)
            samples.append(Sample(time.monotonic() - begin, driver_mb, memory.python_workers_mb, disk_mb, is_collected))
            records.append(member.records)
        batches = engine.batches()
    return _tenths(seconds, begin_ms, samples, records, batches)


def _disk_mb(directory: Path) -> float:
    """Tables and checkpoint; a file may go while it is looked at."""
    total = 0
    for name in ("tables", "checkpoint"):
        for path in (directory / name).rglob("*"):
            with suppress(FileNotFoundError):
                total += path.stat().st_size
    return total / 1e6


def _tenths(
    seconds: float, begin_ms: float, samples: list[Sample], records: list[int], batches: list[MicroBatch]
) -> list[Tenth]:
    found = []
    for number in range(10):
        low, high = seconds * number / 10, seconds * (number + 1) / 10
        within = [sample for sample in samples if low < sample.at_s - _SAMPLE_S / 2 <= high] or samples[-1:]
        times = [batch.trigger_ms for batch in batches if low <= (batch.start_ms - begin_ms) / 1000 < high]
        at = [round(len(samples) * part / 10) for part in (number, number + 1)]
        growth = within[-1].disk_mb - within[0].disk_mb
        found.append(
            Tenth(
                len(times),
                median(times),
                percentile(times, 99),
                median([sample.driver_mb for sample in within]),
                median(
                    [sample.driver_mb for sample in within if sample.is_collected]
                    or [sample.driver_mb for sample in within]
                ),
                median([sample.workers_mb for sample in within]),
                60 * growth / max(_SAMPLE_S, within[-1].at_s - within[0].at_s),
                records[at[1]] - records[at[0]],
            )
        )
    return found


def _ratios(tenths: list[Tenth]) -> dict[str, float]:
    """The last tenth against the second."""
    second, last = tenths[1], tenths[-1]
    return {
        "micro-batch p50": last.batch_p50 / second.batch_p50,
        "driver's memory after a collection": last.collected_mb / second.collected_mb,
        "workers' memory": last.workers_mb / second.workers_mb,
        "disk a minute": last.disk_mb_a_minute / second.disk_mb_a_minute if second.disk_mb_a_minute > 0 else 1.0,
    }


def _report(minutes: float, tenths: list[Tenth], ratios: dict[str, float]) -> str:
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = [
        f"# A soak of {minutes:g} minutes",
        "",
        f"{_RATE:,} records a second to {_PARTITIONS} share-partitions, one member. {about}.",
        "",
        "| tenth | micro-batches | p50, ms | p99, ms | driver, MB | collected | workers, MB | disk, MB a minute |"
        " records |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for number, tenth in enumerate(tenths, 1):
        values = [f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" for value in asdict(tenth).values()]
        lines.append(f"| {number} | {' | '.join(values)} |")
    lines += ["", f"The last tenth against the second; reach: at most {_REACH}.", ""]
    lines += [f"- {name}: {ratio:.2f}" for name, ratio in ratios.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
