"""A pytest plugin that pauses every event loop at random, as if the process lost its CPU (`make pauses`).

A test that depends on the machine's speed fails far more often with such pauses than beside other work.
"""

from __future__ import annotations

import random
import time
from asyncio import BaseEventLoop

#: The mean time between two pauses and the longest pause, in seconds.
INTERVAL_S, LONGEST_S = 0.05, 0.5

_random, _run_once = random.Random(), BaseEventLoop._run_once  # type: ignore[attr-defined]
_next = 0.0


def _pause_and_run_once(loop: BaseEventLoop) -> None:
    global _next
    if time.monotonic() >= _next:
        time.sleep(_random.uniform(0, LONGEST_S))
        _next = time.monotonic() + _random.expovariate(1 / INTERVAL_S)
    _run_once(loop)


BaseEventLoop._run_once = _pause_and_run_once  # type: ignore[attr-defined]
