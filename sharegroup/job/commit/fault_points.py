"""Fault points: a test names a commit step and a batch, and the whole job dies there as by SIGKILL.

`SHAREGROUP_FAULT_POINT=share_partition:2:5` kills JVM and Python after step 2 of the first batch with an id of at least
5 of the share_partition query. Step 0 is before step 1; steps 1 to 4 count only batches with effects. Unset, which is
always but in tests, nothing happens.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

VARIABLE = "SHAREGROUP_FAULT_POINT"


def fault_point(query: str, jvm_pid: int) -> Callable[[int, int], None] | None:
    """A function (step, batch id) that dies at the named point, None if no point of `query` is named."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        return None
    fault_query, fault_step, fault_batch = named.split(":")
    if fault_query != query:
        return None

    def die_here(step: int, batch_id: int) -> None:
        if step == int(fault_step) and batch_id >= int(fault_batch):
            os.kill(jvm_pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    return die_here
