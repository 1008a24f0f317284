"""python -m tests.benchmarks [--only B1,B3] [--quick] [--json PATH]: run the benchmarks, one after the other."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
import traceback
from pathlib import Path

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.benchmarks.figures import Figure
from tests.benchmarks.machine import machine
from tests.benchmarks.report import print_report, write_report

#: In this order; each module has `run(kafka, directory, quick)`.
MODULES = {
    "B1": "b1_batch_time",
    "B3": "b3_share_partitions",
    "B2": "b2_throughput",
    "B4": "b4_recovery",
    "B5": "b5_gateway",
    "B6": "b6_latency",
    "B7": "b7_idle_members",
    "B8": "b8_python_client",
    "B10": "b10_workers",
    "B11": "b11_gateway_cpu",
    "B12": "b12_month",
    "B13": "b13_scale",
    "B14": "b14_many_members",
    "changes": "one_change",
    "B15": "b15_looked_at",
    "B16": "b16_rude",
    "B17": "b17_fail_over",
    "B18": "b18_broker_failures",
    "B19": "b19_many_topics",
    "B20": "b20_reservations",
    "B21": "b21_reservation_faults",
    "upkeep": "upkeep",
    "idle": "idle",
    "shards": "shards",
}
#: A search for a setting, not a figure of its own: only when asked for.
_ON_REQUEST = ("shards",)


def main() -> int:
    """Run what is asked for; 1 if a benchmark broke (a figure that is not reached is no failure)."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        type=_names,
        default=[name for name in MODULES if name not in _ON_REQUEST],
        metavar="B1,B3",
        help=f"of {', '.join(MODULES)}",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: does it work; its figures mean little")
    parser.add_argument("--json", type=Path, default=Path("build/benchmarks.json"), help="%(default)s")
    options = parser.parse_args()
    about = {**machine(), "sizes": "quick" if options.quick else "full"}
    figures: list[Figure] = []
    details: dict[str, object] = {}
    broken = 0
    for name in options.only:
        begin = time.monotonic()
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            found, details[name] = _run(name, options.quick)
            figures += found
        except Exception:  # noqa: BLE001 - the other benchmarks still tell something
            traceback.print_exc()
            broken += 1
        print(f"{name}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        write_report(options.json, about, figures, details)
    print_report(about, figures)
    return 1 if broken else 0


def _run(name: str, quick: bool) -> tuple[list[Figure], object]:
    """A broker and a directory for each benchmark, which may have a `BROKER_HEAP` and `BROKER_PROPERTIES`."""
    module = importlib.import_module(f"tests.benchmarks.{MODULES[name]}")
    broker = EmbeddedKafka(
        heap=getattr(module, "BROKER_HEAP", "-Xmx512m"), properties=getattr(module, "BROKER_PROPERTIES", None)
    )
    with tempfile.TemporaryDirectory(prefix="sharegroup-benchmark-") as directory, broker as kafka:
        found: tuple[list[Figure], object] = module.run(kafka, Path(directory), quick)
        return found


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no benchmark {', '.join(unknown)}; there are {', '.join(MODULES)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
