"""Log throttle for lines that may be frequent under attack: one per minute, with the number of suppressed ones."""

INTERVAL_S = 60.0


class LogThrottle:
    """Limits one kind of log line to one per `INTERVAL_S`. Times are in seconds, of any clock."""

    def __init__(self) -> None:
        self._logged_at = float("-inf")
        self._suppressed = 0

    def next_suffix(self, now: float) -> str | None:
        """Return a suffix for the line if it may be logged now, or None if it must not be logged.

        The suffix contains the number of lines that were suppressed before; it is empty if there were none.
        """
        if now - self._logged_at < INTERVAL_S:
            self._suppressed += 1
            return None
        suppressed, self._suppressed, self._logged_at = self._suppressed, 0, now
        return f" ({suppressed} more since the last such line)" if suppressed else ""
