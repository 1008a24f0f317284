"""The simulation with fixed seeds: no promise is broken, and a run is the same twice."""

from __future__ import annotations

import pytest

from tests.params import thorough
from tests.simulation.run import run

#: Cheap ones that have, together, almost every kind of fault. `make simulate` has more.
_SEEDS = (5, 12, *thorough(1, 2, 7, 9, 13, 18))


@pytest.mark.parametrize("seed", _SEEDS)
def test_no_promise_is_broken(seed: int) -> None:
    found = run(seed, 0.5)
    assert (found.violations, found.batches > 0) == ((), True)


@pytest.mark.thorough  # test_gateway_runs compares runs of two processes
def test_a_run_is_the_same_twice() -> None:
    first, second = run(12, 0.5), run(12, 0.5)
    assert (first.digest, first.deliveries, first.batches) == (second.digest, second.deliveries, second.batches)
