"""What is judged at the end, when the last fault is long over: from the tables, against what clients were answered."""

from __future__ import annotations

from sharegroup.testkit.simulation.job_host import JobHost
from sharegroup.testkit.simulation.world import World


def judge_at_the_end(world: World, host: JobHost) -> None:
    """Add to the judge's violations."""
