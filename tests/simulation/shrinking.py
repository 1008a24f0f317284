"""Reduction of a violation: the kinds of faults that it does not need are removed one by one."""

from __future__ import annotations

from tests.simulation.run import Result, run
from tests.simulation.world import faults_of


def shrunk(seed: int, hours: float, rule: str, extra: frozenset[str] = frozenset()) -> Result:
    """Return the run of a seed with as few kinds of faults as still violate the rule, with its trace.

    `extra` are added to the faults of the seed.
    """
    faults = set(faults_of(seed) | extra)
    for fault in sorted(faults):
        if any(found.rule == rule for found in run(seed, hours, faults - {fault}).violations):
            faults.discard(fault)
    return run(seed, hours, faults, keep_trace=True)
