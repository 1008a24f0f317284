"""Waiting for what another process does, where there is nothing but to look."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Ends a wait for something that never happens. Nothing takes so long on a slow or busy machine.
PATIENCE_S = 600
_POLL_S = 0.05


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = PATIENCE_S) -> None:
    """Return once `condition` holds; AssertionError with `what` was waited for when that takes too long."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"{what}: not in {deadline_s} s"
        time.sleep(_POLL_S)
