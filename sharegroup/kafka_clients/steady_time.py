"""The steady clock: the time since this machine was started.

It is never set, includes suspended time, and is the same for all processes of the machine.
"""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_ms() -> int:
    return int(time.clock_gettime(_CLOCK) * 1000)
