"""Fault points for tests: the whole job is killed by SIGKILL at a given commit step of a given batch.

`SHAREGROUP_FAULT_POINT=share_partition:2:5` kills the JVM and Python after step 2 of the first batch of the
share_partition query with an id of at least 5. Step 0 is the time before step 1. Batches without effects reach only
step 0. Without the variable, nothing happens.
"""

import os
import signal
from collections.abc import Callable

VARIABLE = "SHAREGROUP_FAULT_POINT"


def fault_point(query: str, jvm_pid: int) -> Callable[[int, int], None] | None:
    """Return a function (step, batch id) that kills the job at the configured point; None if `query` has no point."""
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
