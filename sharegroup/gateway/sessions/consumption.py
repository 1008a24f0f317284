"""The rate at which a member consumes records while it has records to process. No clock: `now_ms` is passed in."""

from __future__ import annotations

#: The rate is averaged over about this much processing time, in ms. A fast member sends many fetches in this time.
MEMORY_MS = 1_000


class Consumption:
    """Measures how many records per ms a member processes.

    Processing lasts from a delivery until the member sends its next fetch or has acknowledged all records. The time in
    which the member waits for records is excluded, because it depends on the speed of the job.

    If the member takes longer than usual for a delivery, `rate` returns less even before the member has finished it.
    The rate of a member that has stopped therefore goes down.
    """

    def __init__(self) -> None:
        self._records = 0.0
        self._busy_ms = 0.0
        self._handed_out = 0
        self._since_ms: int | None = None

    def record_delivery(self, records: int, now_ms: int) -> None:
        """Record that `records` records were delivered at `now_ms`. This also ends the previous delivery."""
        self.record_delivery_end(now_ms)
        self._handed_out, self._since_ms = records, now_ms

    def record_delivery_end(self, now_ms: int) -> None:
        """Record that the member has finished processing the records of its last delivery.

        Must be called when the member sends a fetch or has acknowledged all records that it holds.
        """
        if self._since_ms is None:
            return
        self._records += self._handed_out
        self._busy_ms += max(0, now_ms - self._since_ms)
        self._since_ms = None
        if self._busy_ms > MEMORY_MS:
            self._records *= MEMORY_MS / self._busy_ms
            self._busy_ms = float(MEMORY_MS)

    def rate(self, now_ms: int) -> float | None:
        """Return the rate in records per ms; None until the member has finished its first delivery."""
        if not self._records:
            return None
        rate = self._records / max(1.0, self._busy_ms)
        if self._since_ms is None:
            return rate
        pause_ms = max(0, now_ms - self._since_ms)
        return min(rate, (self._records + self._handed_out) / max(1.0, self._busy_ms + pause_ms))
