"""What happens often under attack has a line in the log once a minute, with how often it was."""

from __future__ import annotations

INTERVAL_S = 60.0


class Seldom:
    """One kind of line. `now` is a clock in seconds."""

    def __init__(self) -> None:
        self._told = float("-inf")
        self._since = 0

    def due(self, now: float) -> str | None:
        """What to add to the line that is due: "" or how many were left out; None: leave this one out."""
        if now - self._told < INTERVAL_S:
            self._since += 1
            return None
        left_out, self._since, self._told = self._since, 0, now
        return f" (and {left_out} times more since the last such line)" if left_out else ""
