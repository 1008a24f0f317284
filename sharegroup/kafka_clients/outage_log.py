"""Log lines for work that fails and is retried."""

import logging
import time
from collections.abc import Callable


class OutageLog:
    """Writes one line when work starts to fail, and one with the duration when it succeeds again.

    `failure` and `recovery` are the texts of the lines, such as "polling failed" and "polling succeeded again".
    """

    def __init__(
        self, logger: logging.Logger, failure: str, recovery: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger, self._failure, self._recovery, self._now = logger, failure, recovery, now
        self._began_s: float | None = None

    def report_failure(self, problem: object) -> None:
        if self._began_s is None:
            self._began_s = self._now()
            self._logger.warning("%s; retrying: %s", self._failure, problem)

    def report_success(self) -> None:
        if self._began_s is not None:
            self._logger.warning("%s after %.1f s", self._recovery, self._now() - self._began_s)
            self._began_s = None
