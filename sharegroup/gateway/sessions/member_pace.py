"""The pace of a member: its rate of consumption, and its usual time between fetches. No clock, no I/O."""

from __future__ import annotations

#: Length of the averaging period, in milliseconds. It covers many fetches of a fast member.
MEMORY_MS = 1_000
#: A member that has been away for this number of its usual intervals is idle.
IDLE_INTERVALS = 4


class Consumption:
    """Measures records per millisecond between a delivery and the member's next fetch or last acknowledgement.

    The time that the member waits for records is excluded, because it depends on the speed of the job. A pause longer
    than the last delivery accounts for lowers the rate immediately, so the rate of a member that stopped goes down.
    """

    def __init__(self) -> None:
        self._records = 0.0
        self._busy_ms = 0.0
        self._delivered = 0
        self._since_ms: int | None = None

    def handed_out(self, records: int, now_ms: int) -> None:
        """Record that `records` were delivered; the member is busy with them from now on."""
        self.asked(now_ms)
        self._delivered, self._since_ms = records, now_ms

    def asked(self, now_ms: int) -> None:
        """Record that the member has finished its last delivery.

        It has sent a fetch, or has acknowledged all records that it holds.
        """
        if self._since_ms is None:
            return
        self._records += self._delivered
        self._busy_ms += max(0, now_ms - self._since_ms)
        self._since_ms = None
        if self._busy_ms > MEMORY_MS:
            self._records *= MEMORY_MS / self._busy_ms
            self._busy_ms = float(MEMORY_MS)

    def rate(self, now_ms: int) -> float | None:
        """Return the rate in records per millisecond, or None before the member has finished its first delivery."""
        if not self._records:
            return None
        rate = self._records / max(1.0, self._busy_ms)
        if self._since_ms is None:
            return rate
        pause_ms = max(0, now_ms - self._since_ms)
        return min(rate, (self._records + self._delivered) / max(1.0, self._busy_ms + pause_ms))


class PollRhythm:
    """Measures the fetches of one session, between which the member processes records. All times are milliseconds.

    Only pauses after records count, because a member that got none fetches again immediately. The usual pause rises
    with one longer pause and falls slowly. A member that got more records than before may take longer in proportion.
    """

    def __init__(self) -> None:
        self._open_fetches = 0
        self._left_ms: int | None = None
        self._delivered = 0
        self._usual_ms: float | None = None
        self._ms_a_record = 0.0

    def came(self, now_ms: int) -> None:
        """Record the start of a fetch."""
        self._open_fetches += 1
        if self._left_ms is None:
            return
        if self._delivered:
            away_ms = float(max(0, now_ms - self._left_ms))
            self._usual_ms = _smoothed(self._usual_ms or 0.0, away_ms)
            self._ms_a_record = _smoothed(self._ms_a_record, away_ms / self._delivered)
        self._left_ms = None

    def went(self, records: int, now_ms: int) -> None:
        """Record the end of a fetch, with its number of records."""
        self._open_fetches -= 1
        if not self._open_fetches:
            self._left_ms, self._delivered = now_ms, records

    def is_idle(self, now_ms: int, least_ms: int, most_ms: int) -> bool:
        """Return whether the member has been away for several of its usual intervals.

        Never before `least_ms`, always after `most_ms`. A member that has not fetched again at all becomes idle after
        `most_ms`.
        """
        if self._left_ms is None:
            return False
        limit_ms = float(most_ms)
        if self._usual_ms is not None:
            own_ms = max(self._usual_ms, self._delivered * self._ms_a_record)
            limit_ms = min(limit_ms, max(least_ms, IDLE_INTERVALS * own_ms))
        return now_ms - self._left_ms >= limit_ms


def _smoothed(before: float, newest: float) -> float:
    return max(newest, (before + newest) / 2)
