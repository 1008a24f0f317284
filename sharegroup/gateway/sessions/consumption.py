"""How fast a member takes records, when it is the member that sets the pace. No clock: `now_ms` comes in."""

from __future__ import annotations

#: Time to remember, in milliseconds: long enough for many fetches of a fast member.
MEMORY_MS = 1_000


class Consumption:
    """Records a millisecond, over the time between a hand-out and the member's next fetch, or its last acknowledgement.

    The time that the member waits for records is left out: it says how fast the job is. A pause that lasts longer
    than the last hand-out was worth counts at once, so that the rate of a member that stopped goes down.
    """

    def __init__(self) -> None:
        self._records = 0.0
        self._busy_ms = 0.0
        self._handed_out = 0
        self._since_ms: int | None = None

    def handed_out(self, records: int, now_ms: int) -> None:
        """The member was sent `records`, and is busy with them from now on."""
        self.asked(now_ms)
        self._handed_out, self._since_ms = records, now_ms

    def asked(self, now_ms: int) -> None:
        """The member asks for records, or has acknowledged all that it has: it is done with those that it was sent."""
        if self._since_ms is None:
            return
        self._records += self._handed_out
        self._busy_ms += max(0, now_ms - self._since_ms)
        self._since_ms = None
        if self._busy_ms > MEMORY_MS:
            self._records *= MEMORY_MS / self._busy_ms
            self._busy_ms = float(MEMORY_MS)

    def rate(self, now_ms: int) -> float | None:
        """Records a millisecond; None before the member has come back for the first time."""
        if not self._records:
            return None
        rate = self._records / max(1.0, self._busy_ms)
        if self._since_ms is None:
            return rate
        pause_ms = max(0, now_ms - self._since_ms)
        return min(rate, (self._records + self._handed_out) / max(1.0, self._busy_ms + pause_ms))
