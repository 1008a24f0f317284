"""The brokers' clock, as told by the rows that were appended. PURE: no clock, no I/O.

It is what acknowledgements are judged by. A gateway whose own clock is wrong would drop what it has just been given, or
hand out what nobody may acknowledge any more. An append happened between sending it and its answer, so its time tells
the offset, as exactly as that took.
"""

from __future__ import annotations

#: After this long the next append counts, however long it took: clocks drift.
SAMPLE_MS = 60_000


class BrokerClock:
    """See the module. All times are milliseconds since the epoch; `local` ones are this machine's."""

    def __init__(self) -> None:
        self._offset_ms = 0
        self._took_ms: int | None = None
        self._sampled_ms = 0

    def appended(self, sent_ms: int, append_ms: int, answered_ms: int) -> None:
        """Rows that were sent at `sent_ms` and answered at `answered_ms` (both local) were appended at `append_ms`."""
        took_ms = max(0, answered_ms - sent_ms)
        if append_ms < 0:
            return  # the topic does not keep the time of its appends
        is_old = abs(answered_ms - self._sampled_ms) > SAMPLE_MS
        if self._took_ms is None or took_ms <= self._took_ms or is_old:
            self._took_ms, self._sampled_ms = took_ms, answered_ms
            self._offset_ms = append_ms - (sent_ms + answered_ms) // 2

    def now_ms(self, local_ms: int) -> int:
        """The brokers' time now; the local time while nothing was appended yet."""
        return local_ms + self._offset_ms
