"""The brokers' clock, as told by the rows that were appended. PURE: no clock, no I/O.

It is what acknowledgements are judged by. A gateway whose own clock is wrong would drop what it has just been given, or
hand out what nobody may acknowledge any more; a job would end locks early, or never. An append happened between sending
it and its answer, so its time tells the offset, as exactly as that took. What it tells gets older: clocks drift. A time
that cannot be true under what is known shows that one of the clocks has jumped.
"""

from __future__ import annotations

from math import ceil

#: What is known gets worse by this, ms for each ms: twice as fast as clocks that are kept right are slewed.
DRIFT = 0.001


class BrokerClock:
    """Tells what time it is at the brokers, from the times of appends. All times are milliseconds since the epoch;
    `local` ones are of a clock that nobody sets."""

    def __init__(self) -> None:
        self._offset_ms = 0
        self._took_ms: int | None = None
        self._sampled_ms = 0

    def appended(self, sent_ms: int, append_ms: int, answered_ms: int) -> None:
        """Rows that were sent at `sent_ms` and answered at `answered_ms` (both local) were appended at `append_ms`.

        Of rows that were sent more than once, `sent_ms` is of the first time: that one may have been appended.
        """
        if append_ms < 0:
            return  # the topic does not keep the time of its appends
        took_ms = max(0, answered_ms - sent_ms)
        if took_ms <= self._worth_ms(answered_ms) or not self._explains(sent_ms, append_ms, answered_ms):
            self._took_ms, self._sampled_ms = took_ms, answered_ms
            self._offset_ms = append_ms - (sent_ms + answered_ms) // 2

    def now_ms(self, local_ms: int) -> int:
        """The brokers' time now; the local time while nothing was appended yet."""
        return local_ms + self._offset_ms

    def bounds_ms(self, local_ms: int) -> tuple[int, int]:
        """Return the earliest and the latest time that the brokers may have now."""
        assert self._took_ms is not None, "nothing was appended yet"
        slack_ms = ceil(self._worth_ms(local_ms) / 2)
        return self.now_ms(local_ms) - slack_ms, self.now_ms(local_ms) + slack_ms

    def _worth_ms(self, local_ms: int) -> float:
        """How long the append took that the offset is known by, and what has made it worse since then."""
        if self._took_ms is None:
            return float("inf")
        return self._took_ms + DRIFT * abs(local_ms - self._sampled_ms)

    def _explains(self, sent_ms: int, append_ms: int, answered_ms: int) -> bool:
        """Whether the append can have happened then, by what is known."""
        slack_ms = self._worth_ms(answered_ms) / 2
        return sent_ms - slack_ms <= append_ms - self._offset_ms <= answered_ms + slack_ms
