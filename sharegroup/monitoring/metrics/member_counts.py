"""Metrics of a member that is a Spark job, under the names of Kafka's share consumer.

Averages and maxima are over the lifetime of the member. Rates can be computed from two values of a total. Kafka's
metrics about bytes are missing, because Spark's readers read the records, not the member.
"""

from collections import OrderedDict

CONSUMER = "consumer-share-metrics"
COORDINATOR = "consumer-share-coordinator-metrics"
FETCH_MANAGER = "consumer-share-fetch-manager-metrics"
#: Maximum number of requests whose response times are measured at the same time. Older ones are dropped.
_MAX_AWAITED = 1_000


class _Times:
    """Count, mean and maximum of values, such as durations in milliseconds."""

    def __init__(self) -> None:
        self.count, self._sum, self.max = 0, 0, 0

    def add(self, value: int) -> None:
        self.count += 1
        self._sum += value
        self.max = max(self.max, value)

    @property
    def mean(self) -> float:
        """The mean; NaN without values, as in Kafka."""
        return self._sum / self.count if self.count else float("nan")


class MemberCounts:
    """Counts of one member. Times are in milliseconds of the member's clock."""

    def __init__(self) -> None:
        self._heartbeats = self._fetches = self._rebalances = 0
        self._acknowledged = self._failed = self._records = 0
        self._heartbeat_ms: int | None = None
        self._polled_ms: int | None = None
        self._heartbeat_times, self._fetch_times = _Times(), _Times()
        self._between_polls, self._records_of_polls = _Times(), _Times()
        self._sent_ms: OrderedDict[str, int] = OrderedDict()

    def count_heartbeat(self, request_id: str, now_ms: int) -> None:
        self._heartbeats += 1
        self._heartbeat_ms = now_ms
        self._await(request_id, now_ms)

    def count_fetch(self, request_id: str, now_ms: int) -> None:
        self._fetches += 1
        self._await(request_id, now_ms)

    def count_heartbeat_response(self, request_id: str, now_ms: int) -> None:
        self._add_latency(self._heartbeat_times, request_id, now_ms)

    def count_fetch_response(self, request_id: str, now_ms: int) -> None:
        """Count the response to a fetch request, with records or without."""
        self._add_latency(self._fetch_times, request_id, now_ms)

    def count_rebalance(self) -> None:
        """Count a new assignment."""
        self._rebalances += 1

    def count_poll(self, records: int, now_ms: int) -> None:
        """Count a batch that starts with `records` records."""
        if self._polled_ms is not None:
            self._between_polls.add(now_ms - self._polled_ms)
        self._polled_ms = now_ms
        self._records += records
        self._records_of_polls.add(records)

    def count_acknowledgements(self, records: int) -> None:
        self._acknowledged += records

    def count_failures(self, records: int) -> None:
        """Count acknowledged records whose acknowledgement failed."""
        self._failed += records

    def values(self, now_ms: int) -> dict[str, dict[str, float]]:
        """Return {Kafka's metric group: {Kafka's metric name: value}}.

        Times are in milliseconds, except for names with `seconds`.
        """
        return {
            CONSUMER: {
                "last-poll-seconds-ago": _ago_s(self._polled_ms, now_ms),
                "time-between-poll-avg": self._between_polls.mean,
                "time-between-poll-max": self._between_polls.max,
            },
            COORDINATOR: {
                "heartbeat-total": self._heartbeats,
                "heartbeat-response-time-max": self._heartbeat_times.max,
                "last-heartbeat-seconds-ago": _ago_s(self._heartbeat_ms, now_ms),
                "rebalance-total": self._rebalances,
            },
            FETCH_MANAGER: {
                "fetch-total": self._fetches,
                "fetch-latency-avg": self._fetch_times.mean,
                "fetch-latency-max": self._fetch_times.max,
                "records-consumed-total": self._records,
                "records-per-request-avg": self._records_of_polls.mean,
                "records-per-request-max": self._records_of_polls.max,
                "acknowledgements-send-total": self._acknowledged,
                "acknowledgements-error-total": self._failed,
            },
        }

    def _await(self, request_id: str, now_ms: int) -> None:
        self._sent_ms[request_id] = now_ms
        if len(self._sent_ms) > _MAX_AWAITED:
            self._sent_ms.popitem(last=False)

    def _add_latency(self, times: _Times, request_id: str, now_ms: int) -> None:
        sent_ms = self._sent_ms.pop(request_id, None)
        if sent_ms is not None:
            times.add(now_ms - sent_ms)


def _ago_s(then_ms: int | None, now_ms: int) -> float:
    """Return seconds since a time; -1 for never, as in Kafka."""
    return -1 if then_ms is None else (now_ms - then_ms) // 1000
