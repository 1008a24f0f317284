"""Measures the usual time between a member's fetches, to detect that it has stopped fetching. No clock, no I/O."""

from __future__ import annotations

#: A member is idle if it has not fetched for this many times the usual time between its fetches.
IDLE_INTERVALS = 4


class PollRhythm:
    """Measures a member's usual pause between two fetches in one session. Times are in ms.

    In a pause, the member processes records. Only pauses after a response with records count, because a member without
    records fetches again immediately. A longer pause becomes the usual pause immediately, while shorter pauses lower
    it slowly. A member that received more records than before is allowed a proportionally longer pause.
    """

    def __init__(self) -> None:
        self._here = 0
        self._left_ms: int | None = None
        self._handed_out = 0
        self._usual_ms: float | None = None
        self._ms_a_record = 0.0

    def begin_fetch(self, now_ms: int) -> None:
        self._here += 1
        if self._left_ms is None:
            return
        if self._handed_out:
            away_ms = float(max(0, now_ms - self._left_ms))
            self._usual_ms = _smoothed(self._usual_ms or 0.0, away_ms)
            self._ms_a_record = _smoothed(self._ms_a_record, away_ms / self._handed_out)
        self._left_ms = None

    def end_fetch(self, records: int, now_ms: int) -> None:
        self._here -= 1
        if not self._here:
            self._left_ms, self._handed_out = now_ms, records

    def is_idle(self, now_ms: int, least_ms: int, most_ms: int) -> bool:
        """Return whether the member has not fetched for `IDLE_INTERVALS` times its usual pause. False during a fetch.

        The required time without a fetch is at least `least_ms` and at most `most_ms`. It is `most_ms` until a usual
        pause is known.
        """
        if self._left_ms is None:
            return False
        limit_ms = float(most_ms)
        if self._usual_ms is not None:
            own_ms = max(self._usual_ms, self._handed_out * self._ms_a_record)
            limit_ms = min(limit_ms, max(least_ms, IDLE_INTERVALS * own_ms))
        return now_ms - self._left_ms >= limit_ms


def _smoothed(before: float, newest: float) -> float:
    return max(newest, (before + newest) / 2)
