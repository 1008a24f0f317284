"""Throttle for log lines that may be very frequent, for example during an attack. One line per minute is logged."""

INTERVAL_S = 60.0


class LogThrottle:
    """A limit for one kind of log line: at most one line per `INTERVAL_S` seconds.

    Times are in seconds of any clock that never goes back.
    """

    def __init__(self) -> None:
        self._logged_at = float("-inf")
        self._suppressed = 0

    def next_suffix(self, now: float) -> str | None:
        """Return a suffix for the log line, or None if the caller must not log the line now.

        The suffix contains the number of lines that were suppressed since the last logged line. It is empty if no line
        was suppressed. If the result is None, this line is counted as suppressed.
        """
        if now - self._logged_at < INTERVAL_S:
            self._suppressed += 1
            return None
        suppressed, self._suppressed, self._logged_at = self._suppressed, 0, now
        return f" ({suppressed} more since the last such line)" if suppressed else ""
