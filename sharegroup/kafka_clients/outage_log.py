"""Log lines for work that fails and is retried."""

import logging
import time
from collections.abc import Callable

from sharegroup.log_fields import LogFields


class OutageLog:
    """Writes one line when work starts to fail, and one with the duration when it succeeds again.

    `failure` and `recovery` are the texts of the lines, such as "polling failed" and "polling succeeded again". They
    may name values of `fields`, as in "%(topic)s: polling failed".
    """

    def __init__(
        self,
        logger: logging.Logger,
        failure: str,
        recovery: str,
        now: Callable[[], float] = time.monotonic,
        fields: LogFields | None = None,
    ) -> None:
        self._fields = fields or LogFields()
        self._logger, self._failure, self._recovery, self._now = logger, failure, recovery, now
        self._began_s: float | None = None

    def report_failure(self, problem: object) -> None:
        if self._began_s is None:
            self._began_s = self._now()
            fields: LogFields = {**self._fields, "error": problem}
            self._logger.warning(f"{self._failure}; retrying: %(error)s", fields)

    def report_success(self) -> None:
        if self._began_s is not None:
            fields: LogFields = {**self._fields, "duration_s": self._now() - self._began_s}
            self._logger.warning(f"{self._recovery} after %(duration_s).1f s", fields)
            self._began_s = None
