"""The metrics of a share consumer, with Kafka's metric groups and names.

As in Kafka, averages, maxima and rates cover the last 30 to 60 seconds. Values are collected in two windows of 30
seconds. When a third window begins, the oldest one is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

WINDOW_MS = 30_000
_HOUR_S = 3_600
SHARE = "consumer-share-metrics"
COORDINATOR = "consumer-share-coordinator-metrics"
FETCH_MANAGER = "consumer-share-fetch-manager-metrics"

Metrics = dict[str, dict[str, float]]


@dataclass(slots=True)
class _Window:
    start_ms: int
    count: int = 0
    total: float = 0.0
    max: float = nan


class Measured:
    """The values of one quantity in the last two windows of 30 s, and the count and sum of all values ever recorded."""

    def __init__(self, now_ms: int) -> None:
        self.count, self.total = 0, 0.0
        self._windows = [_Window(now_ms)]

    def record(self, value: float, now_ms: int) -> None:
        """Add a value."""
        window = self._recent(now_ms)[-1]
        window.count += 1
        window.total += value
        window.max = value if window.count == 1 else max(window.max, value)
        self.count += 1
        self.total += value

    def average(self, now_ms: int) -> float:
        """Return the mean of the values in the last two windows of 30 s, NaN if there are none."""
        windows = self._recent(now_ms)
        count = sum(window.count for window in windows)
        return sum(window.total for window in windows) / count if count else nan

    def max(self, now_ms: int) -> float:
        """Return the maximum of the values in the last two windows of 30 s, NaN if there are none."""
        return max((window.max for window in self._recent(now_ms) if window.count), default=nan)

    def total_per_s(self, now_ms: int) -> float:
        """Return the sum of the values in the last two windows of 30 s, per second."""
        return self._per_s(sum(window.total for window in self._recent(now_ms)), now_ms)

    def count_per_s(self, now_ms: int) -> float:
        """Return the number of values in the last two windows of 30 s, per second."""
        return self._per_s(sum(window.count for window in self._recent(now_ms)), now_ms)

    def _per_s(self, amount: float, now_ms: int) -> float:
        return amount * 1000 / max(now_ms - self._windows[0].start_ms, WINDOW_MS)

    def _recent(self, now_ms: int) -> list[_Window]:
        """Return the windows that are not too old, with the current one last. Older ones are dropped."""
        windows = [window for window in self._windows if now_ms - window.start_ms < 2 * WINDOW_MS]
        if not windows or now_ms - windows[-1].start_ms >= WINDOW_MS:
            windows.append(_Window(now_ms))
        self._windows = windows
        return windows


class ConsumerMetrics:
    """Computes the metrics of one share consumer from the events that the consumer reports.

    Times are in milliseconds of one steady clock. The first window begins at `now_ms`.
    """

    def __init__(self, now_ms: int = 0) -> None:
        self.between_polls, self.poll_idle, self.heartbeats, self.rebalances = (Measured(now_ms) for _ in range(4))
        self.fetched_bytes, self.fetched_records, self.fetch_latency, self.throttle = (
            Measured(now_ms) for _ in range(4)
        )
        self.acknowledged, self.acknowledge_errors = Measured(now_ms), Measured(now_ms)
        self._poll_start_ms: int | None = None
        self._last_poll_ms: int | None = None
        self._last_heartbeat_ms: int | None = None

    def poll_began(self, now_ms: int) -> None:
        """Record the start of a poll, and the time since the start of the previous poll."""
        if self._poll_start_ms is not None:
            self.between_polls.record(now_ms - self._poll_start_ms, now_ms)
        self._poll_start_ms = self._last_poll_ms = now_ms

    def poll_ended(self, now_ms: int) -> None:
        """Record the end of a poll. The poll's duration counts as time in which the consumer waited for records."""
        assert self._poll_start_ms is not None
        self.poll_idle.record(now_ms - self._poll_start_ms, now_ms)

    def heartbeat_answered(self, latency_ms: int, now_ms: int) -> None:
        """Record the response to a heartbeat."""
        self.heartbeats.record(latency_ms, now_ms)
        self._last_heartbeat_ms = now_ms

    def fetch_answered(self, latency_ms: int, throttle_ms: int, size: int, records: int, now_ms: int) -> None:
        """Record the response to a ShareFetch; `size` is the length of its records in bytes."""
        self.fetch_latency.record(latency_ms, now_ms)
        self.throttle.record(throttle_ms, now_ms)
        self.fetched_bytes.record(size, now_ms)
        self.fetched_records.record(records, now_ms)

    def values(self, now_ms: int) -> Metrics:
        """Return all metrics as {metric group: {metric name: value}}.

        If nothing was measured, averages and maxima are NaN. Totals and rates are then 0, and the seconds since the
        last poll or heartbeat are -1.
        """
        return {
            SHARE: self._polls(now_ms),
            COORDINATOR: self._group(now_ms),
            FETCH_MANAGER: {**self._fetches(now_ms), **self._acknowledgements(now_ms)},
        }

    def _polls(self, now_ms: int) -> dict[str, float]:
        idle_ms, period_ms = self.poll_idle.average(now_ms), self.between_polls.average(now_ms)
        return {
            "last-poll-seconds-ago": _ago_s(self._last_poll_ms, now_ms),
            "time-between-poll-avg": period_ms,
            "time-between-poll-max": self.between_polls.max(now_ms),
            "poll-idle-ratio-avg": min(idle_ms / period_ms, 1.0) if period_ms else nan,
        }

    def _group(self, now_ms: int) -> dict[str, float]:
        return {
            "heartbeat-response-time-max": self.heartbeats.max(now_ms),
            "heartbeat-rate": self.heartbeats.count_per_s(now_ms),
            "heartbeat-total": self.heartbeats.count,
            "last-heartbeat-seconds-ago": _ago_s(self._last_heartbeat_ms, now_ms),
            "rebalance-total": self.rebalances.count,
            "rebalance-rate-per-hour": self.rebalances.count_per_s(now_ms) * _HOUR_S,
        }

    def _fetches(self, now_ms: int) -> dict[str, float]:
        return {
            "fetch-size-avg": self.fetched_bytes.average(now_ms),
            "fetch-size-max": self.fetched_bytes.max(now_ms),
            "bytes-consumed-rate": self.fetched_bytes.total_per_s(now_ms),
            "bytes-consumed-total": self.fetched_bytes.total,
            "records-per-request-avg": self.fetched_records.average(now_ms),
            "records-per-request-max": self.fetched_records.max(now_ms),
            "records-consumed-rate": self.fetched_records.total_per_s(now_ms),
            "records-consumed-total": self.fetched_records.total,
            "fetch-latency-avg": self.fetch_latency.average(now_ms),
            "fetch-latency-max": self.fetch_latency.max(now_ms),
            "fetch-rate": self.fetch_latency.count_per_s(now_ms),
            "fetch-total": self.fetch_latency.count,
            "fetch-throttle-time-avg": self.throttle.average(now_ms),
            "fetch-throttle-time-max": self.throttle.max(now_ms),
        }

    def _acknowledgements(self, now_ms: int) -> dict[str, float]:
        return {
            "acknowledgements-send-rate": self.acknowledged.total_per_s(now_ms),
            "acknowledgements-send-total": self.acknowledged.total,
            "acknowledgements-error-rate": self.acknowledge_errors.total_per_s(now_ms),
            "acknowledgements-error-total": self.acknowledge_errors.total,
        }


def _ago_s(time_ms: int | None, now_ms: int) -> float:
    return -1 if time_ms is None else (now_ms - time_ms) // 1000
