"""Log lines for work that fails and is retried."""

import logging
import time
from collections.abc import Callable, Hashable

from sharegroup.log_fields import LogFields

#: Maximum number of failing keys that `OutageLogs` stores. There is a limit because the key of a deleted object, such
#: as a partition, never succeeds again and would never be removed.
MAX_KEYS = 10_000


class OutageLog:
    """Writes one line when work starts to fail, and one with the duration when it succeeds again.

    `failure` and `recovery` are the texts of the lines, such as "polling failed" and "polling succeeded again". They
    can contain placeholders for values of `fields`, as in "%(topic)s: polling failed".
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


class OutageLogs:
    """One `OutageLog` for each key. The keys stand for things that fail independently, such as partitions.

    Only failing keys are stored. If there are more than `MAX_KEYS`, the oldest is dropped, and its recovery is not
    logged. The failure line and the recovery line of a key both use the `fields` of its first failure.
    """

    def __init__(
        self, logger: logging.Logger, failure: str, recovery: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger, self._failure, self._recovery, self._now = logger, failure, recovery, now
        self._failing: dict[Hashable, OutageLog] = {}

    def report_failure(self, key: Hashable, problem: object, fields: LogFields | None = None) -> None:
        if key not in self._failing:
            self._failing[key] = OutageLog(self._logger, self._failure, self._recovery, self._now, fields)
            if len(self._failing) > MAX_KEYS:
                del self._failing[next(iter(self._failing))]
        self._failing[key].report_failure(problem)

    def report_success(self, key: Hashable) -> None:
        outage = self._failing.pop(key, None)
        if outage is not None:
            outage.report_success()

    def discard(self, key: Hashable) -> None:
        """Drop the failure of a key, if there is one, without logging a recovery.

        For keys whose object was deleted or changed, such as a log with a new leader. A later failure is logged as a
        new one.
        """
        self._failing.pop(key, None)
