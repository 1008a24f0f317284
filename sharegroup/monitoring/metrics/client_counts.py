"""Counts of client connections and requests of a gateway."""

from collections.abc import Iterator

from sharegroup.monitoring.metrics import gateway_catalogue as catalogue
from sharegroup.monitoring.metrics.metric import Counter, Histogram, MetricFamily

#: The value of the label `api` for all requests that are forwarded to the brokers undecoded.
PASSED_THROUGH = "passed_through"
#: (API, error) of requests that failed because the gateway has no room for another share session. An alert uses their
#: count.
_ALERTED = "ShareFetchRequest", "SHARE_SESSION_LIMIT_REACHED"


class ClientCounts:
    """Counts client connections and requests of one gateway.

    All methods must be called on one thread, except `families`.
    """

    def __init__(self) -> None:
        self._accepted = Counter(catalogue.CONNECTIONS_ACCEPTED)
        self._rejected = Counter(catalogue.CONNECTIONS_REJECTED)
        self._idle = Counter(catalogue.CONNECTIONS_IDLE)
        self._requests = Counter(catalogue.REQUESTS)
        self._failed = Counter(catalogue.REQUESTS_FAILED)
        self._failed.add(0, *_ALERTED)  # Prometheus detects an increase only between two scrapes that have the series
        self._received = Counter(catalogue.BYTES_IN)
        self._sent = Counter(catalogue.BYTES_OUT)
        self._throttled = Counter(catalogue.THROTTLED_SECONDS)
        self._seconds = Histogram(catalogue.REQUEST_SECONDS)

    def count_connection(self, accepted: bool) -> None:
        (self._accepted if accepted else self._rejected).add(1)

    def count_idle_close(self) -> None:
        """Count a connection that was closed because it was idle."""
        self._idle.add(1)

    def count_request(self, api: str, size: int) -> None:
        self._requests.add(1, api)
        self._received.add(size, api)

    def count_response(self, api: str, size: int) -> None:
        self._sent.add(size, api)

    def count_throttling(self, seconds: float) -> None:
        """Count time that a client must wait because of its quota."""
        self._throttled.add(seconds)

    def count_handled(self, api: str, seconds: float, error: str) -> None:
        """Count a request that the gateway handled itself. `error` is the name of its top-level error, or empty."""
        self._seconds.observe(seconds, api)
        if error:
            self._failed.add(1, api, error)

    def families(self) -> Iterator[MetricFamily]:
        for counter in (
            self._accepted,
            self._rejected,
            self._idle,
            self._requests,
            self._failed,
            self._received,
            self._sent,
            self._throttled,
        ):
            yield counter.family()
        yield self._seconds.family()
