"""The simulation's command: many seeds, or the trace of one.

    python -m tests.simulation.simulate --seeds 0:2000 --hours 1
    python -m tests.simulation.simulate --trace 29

Seeds run in as many processes as there are cores. A violation is printed immediately. For the first seed with one, a
trace follows, with no more faults than it needs and only the events of its share-partition. Exit code 1: there was a
violation.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from sharegroup.job.command_parser import CommandParser
from tests.simulation.run import Result, run
from tests.simulation.shrinking import shrunk
from tests.simulation.world import RESERVATIONS, faults_of

#: Each seed that is a multiple of this number runs twice, and both runs must be the same.
_TWICE = 50

#: After so many seeds a line is printed: all of them take an hour or two.
_PROGRESS = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds, or print the trace of one; the exit code reports whether there were violations."""
    parser = CommandParser(prog="python -m tests.simulation.simulate", description=__doc__)
    parser.add_argument("--seeds", default="0:100", type=_range, help="A:B, without B")
    parser.add_argument("--hours", default=1.0, type=float, help="simulated hours of each seed")
    parser.add_argument("--trace", type=int, metavar="SEED", help="tell this one seed")
    parser.add_argument("--processes", default=os.cpu_count() or 1, type=int)
    parser.add_argument("--reservations", action="store_true", help="gateways reserve records for members that wait")
    given = parser.parse_args(arguments)
    extra = frozenset((RESERVATIONS,)) if given.reservations else frozenset()
    if given.trace is not None:
        return _tell(given.trace, given.hours, extra)
    return _run_all(given.seeds, given.hours, given.processes, extra)


def _range(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last))


def _tell(seed: int, hours: float, extra: frozenset[str]) -> int:
    found = run(seed, hours, faults_of(seed) | extra, keep_trace=True)
    if found.violations:
        found = shrunk(seed, hours, found.violations[0].rule, extra)
    print(found.trace)
    return int(bool(found.violations))


def _run_all(seeds: range, hours: float, processes: int, extra: frozenset[str]) -> int:
    begin = time.perf_counter()
    bad: list[Result] = []
    deliveries = batches = finished = 0
    with ProcessPoolExecutor(processes) as pool:
        for done in as_completed([pool.submit(_one, seed, hours, extra) for seed in seeds]):
            found = done.result()
            deliveries, batches = deliveries + found.deliveries, batches + found.batches
            if found.violations:
                bad.append(found)
                for violation in found.violations:
                    print(f"seed {found.seed}: {violation.rule}: {violation.about}: {violation.text}", flush=True)
            finished += 1
            if finished % _PROGRESS == 0:
                print(
                    f"{finished} seeds after {time.perf_counter() - begin:.0f} s, {len(bad)} with a violation",
                    flush=True,
                )
    print(
        f"{len(seeds)} seeds of {hours:g} h: {len(bad)} with a violation; {batches} micro-batches, {deliveries} "
        f"records delivered, {time.perf_counter() - begin:.0f} s in {processes} processes"
    )
    if bad:
        worst = min(bad, key=lambda found: found.seed)
        print(f"\nseed {worst.seed}, without the faults that it does not need:")
        print(shrunk(worst.seed, hours, worst.violations[0].rule, extra).trace)
    return int(bool(bad))


def _one(seed: int, hours: float, extra: frozenset[str]) -> Result:
    faults = faults_of(seed) | extra
    found = run(seed, hours, faults)
    if seed % _TWICE == 0 and run(seed, hours, faults).digest != found.digest:
        raise RuntimeError(f"seed {seed}: two runs of it are not the same")
    return found


if __name__ == "__main__":
    sys.exit(main())
