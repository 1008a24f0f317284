"""Estimates the brokers' clock from the append times of rows. This module reads no clock and does no I/O.

Locks and acknowledgements depend on the brokers' clock. If a wrong local clock were used instead, a gateway would drop
records that it has just received, or deliver records that can no longer be acknowledged. A job would end locks early,
or never.

A broker appends a row after the row was sent and before the response arrives. So the append time shows how far the
broker's clock differs from the local clock. The uncertainty of this difference is the duration of the request, and
grows over time because clocks drift. An append time that contradicts the estimate means that one of the clocks has
jumped, or that another broker with a different clock has appended the row.
"""

from math import ceil

#: Growth of the estimate's uncertainty, in ms per ms. This is twice the rate at which time synchronisation adjusts a
#: clock.
DRIFT = 0.001


class BrokerClock:
    """An estimate of the brokers' clock, in ms since the epoch.

    The arguments `local_ms`, `sent_ms` and `received_ms` of the methods are times of a local monotonic clock, in ms.
    """

    def __init__(self) -> None:
        self._offset_ms = 0
        #: The bounds of the brokers' clock minus the local clock, in ms; None before the first append.
        self._offsets_ms: tuple[int, int] | None = None
        self._sampled_ms = 0

    def record_append(self, sent_ms: int, append_ms: int, received_ms: int) -> None:
        """Update the estimate from rows sent at `sent_ms`, appended at `append_ms` and confirmed at `received_ms`.

        If rows were sent several times, `sent_ms` must be the time of the first attempt, because the broker may have
        appended the rows of that attempt. A slow append that agrees with a more exact estimate is ignored. An append
        time below 0 is ignored, because it means that the topic stores no append times.
        """
        if append_ms < 0:
            return  # the topic does not store append times
        took_ms = max(0, received_ms - sent_ms)
        agrees = self._agrees(sent_ms, append_ms, received_ms)
        if agrees and took_ms > self._uncertainty_ms(received_ms):
            return
        least_ms, most_ms = append_ms - sent_ms - took_ms, append_ms - sent_ms
        if agrees:
            self._offset_ms = (least_ms + most_ms) // 2
        else:  # brokers' clocks differ by little, so after a slow append the nearest offset is more likely
            self._offset_ms = min(max(self._offset_ms, least_ms), most_ms)
        self._offsets_ms, self._sampled_ms = (least_ms, most_ms), received_ms

    def now_ms(self, local_ms: int) -> int:
        """Return the estimated time of the brokers at `local_ms`. Before the first append, return the local time."""
        return local_ms + self._offset_ms

    def bounds_ms(self, local_ms: int) -> tuple[int, int]:
        """Return the earliest and the latest time that the brokers' clock may show at `local_ms`.

        At least one append must have been recorded.
        """
        assert self._offsets_ms is not None, "nothing was appended yet"
        drift_ms = ceil(self._drift_ms(local_ms) / 2)
        least_ms, most_ms = self._offsets_ms
        return local_ms + least_ms - drift_ms, local_ms + most_ms + drift_ms

    def _uncertainty_ms(self, local_ms: int) -> float:
        """Return the uncertainty of the estimate in ms; infinity before the first append.

        It is the duration of the append on which the estimate is based, plus the possible drift since then.
        """
        if self._offsets_ms is None:
            return float("inf")
        least_ms, most_ms = self._offsets_ms
        return most_ms - least_ms + self._drift_ms(local_ms)

    def _drift_ms(self, local_ms: int) -> float:
        return DRIFT * abs(local_ms - self._sampled_ms)

    def _agrees(self, sent_ms: int, append_ms: int, received_ms: int) -> bool:
        """Return whether the append time agrees with the current estimate. The first append always agrees."""
        slack_ms = self._uncertainty_ms(received_ms) / 2
        return sent_ms - slack_ms <= append_ms - self._offset_ms <= received_ms + slack_ms
