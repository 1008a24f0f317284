"""Waits while a start of the job cannot go on because the disk is full, or the brokers or the store are away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from sharegroup.errors import StopRequested
from sharegroup.spark.job.supervisor import MAX_DELAY_S, first_line, is_outage

logger = logging.getLogger(__name__)

T = TypeVar("T")


def outlast(step: Callable[[], T], wait: Callable[[float], bool], clock: Callable[[], float] = time.monotonic) -> T:
    """Run a step of the start, and repeat it for as long as it fails because of an outage.

    A repeated step must have the effect of one. `wait(seconds)` returns whether the job is to stop. An outage is one
    log line when it begins and one when it ends. Raises StopRequested, and any error of the step that is no outage.
    """
    since_s: float | None = None
    delay_s = 1.0
    while True:
        try:
            result = step()
        except Exception as error:
            if not is_outage(error):
                raise
            if since_s is None:
                since_s = clock()
                logger.warning("the job cannot start yet and tries again until it can: %s", first_line(error))
        else:
            if since_s is not None:
                logger.info("the start of the job goes on after an outage of %d s", clock() - since_s)
            return result
        if wait(delay_s):
            raise StopRequested("the job was told to stop before it had started")
        delay_s = min(2 * delay_s, MAX_DELAY_S)
