"""`python -m sharegroup.testkit.simulate [--seeds A:B] [--hours H] [--trace SEED]`: see `testkit.simulation`."""

from __future__ import annotations

import argparse
import sys

from sharegroup.testkit.simulation.run import run


def main() -> int:
    """Run seeds, or tell one."""
    parser = argparse.ArgumentParser(prog="python -m sharegroup.testkit.simulate")
    parser.add_argument("--seeds", default="0:10")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--trace", type=int)
    arguments = parser.parse_args()
    if arguments.trace is not None:
        found = run(arguments.trace, arguments.hours, keep_trace=True)
        print(found.trace)
        return bool(found.violations)
    first, last = map(int, arguments.seeds.split(":"))
    bad = 0
    for seed in range(first, last):
        found = run(seed, arguments.hours)
        print(found._replace(trace=""))
        bad += bool(found.violations)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
