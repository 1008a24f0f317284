"""Retries steps of the job's start while the disk is full, or the brokers or the store are unavailable."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from sharegroup.errors import StopRequested
from sharegroup.kafka_clients.outage_log import OutageLog
from sharegroup.spark.job.supervisor import MAX_DELAY_S, first_line, is_outage

logger = logging.getLogger(__name__)

T = TypeVar("T")


def retry_during_outage(
    step: Callable[[], T], wait: Callable[[float], bool], clock: Callable[[], float] = time.monotonic
) -> T:
    """Run a step of the start, repeating it while it fails because of an outage, and return its result.

    The step must be idempotent. Before each repetition, `wait(seconds)` is called, which must wait and return whether
    the job must stop. One line is logged when an outage begins, and one when it ends. Raises StopRequested if the job
    must stop before the step has succeeded, and any error of the step that is not an outage.
    """
    outage = OutageLog(logger, "the job cannot start because of an outage", "the start of the job continues", clock)
    delay_s = 1.0
    while True:
        try:
            result = step()
        except Exception as error:
            if not is_outage(error):
                raise
            outage.report_failure(first_line(error))
        else:
            outage.report_success()
            return result
        if wait(delay_s):
            raise StopRequested("the job was stopped before it had started")
        delay_s = min(2 * delay_s, MAX_DELAY_S)
