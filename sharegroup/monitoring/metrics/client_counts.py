"""What clients' connections and requests add up to. Counted on one thread; `families` may be asked on another."""

from __future__ import annotations

from collections.abc import Iterator

from sharegroup.monitoring.metrics import gateway_catalogue as catalogue
from sharegroup.monitoring.metrics.metric import Counter, Family, Histogram

#: The `api` of all requests that go to the upstream brokers undecoded.
PASSED_THROUGH = "passed_through"
#: The gateway is full.
_ALERTED = "ShareFetchRequest", "SHARE_SESSION_LIMIT_REACHED"


class ClientCounts:
    """Of one gateway."""

    def __init__(self) -> None:
        self._accepted = Counter(catalogue.CONNECTIONS_ACCEPTED)
        self._refused = Counter(catalogue.CONNECTIONS_REFUSED)
        self._idle = Counter(catalogue.CONNECTIONS_IDLE)
        self._requests = Counter(catalogue.REQUESTS)
        self._failed = Counter(catalogue.REQUESTS_FAILED)
        self._failed.add(0, *_ALERTED)  # an increase is seen only between two scrapes that have the series
        self._received = Counter(catalogue.BYTES_IN)
        self._sent = Counter(catalogue.BYTES_OUT)
        self._throttled = Counter(catalogue.THROTTLED_SECONDS)
        self._seconds = Histogram(catalogue.REQUEST_SECONDS)

    def connected(self, accepted: bool) -> None:
        """A client came; whether there was a place for it."""
        (self._accepted if accepted else self._refused).add(1)

    def closed_idle(self) -> None:
        """A client was silent for too long."""
        self._idle.add(1)

    def received(self, api: str, size: int) -> None:
        """A request came, of so many bytes."""
        self._requests.add(1, api)
        self._received.add(size, api)

    def sent(self, api: str, size: int) -> None:
        """A response of so many bytes goes out."""
        self._sent.add(size, api)

    def throttled(self, seconds: float) -> None:
        """A client is to wait for its quota."""
        self._throttled.add(seconds)

    def answered(self, api: str, seconds: float, error: str) -> None:
        """A request of the gateway's own; `error` is the name of the whole request's error, "" for none."""
        self._seconds.observe(seconds, api)
        if error:
            self._failed.add(1, api, error)

    def families(self) -> Iterator[Family]:
        """As they are now."""
        for counter in (
            self._accepted,
            self._refused,
            self._idle,
            self._requests,
            self._failed,
            self._received,
            self._sent,
            self._throttled,
        ):
            yield counter.family()
        yield self._seconds.family()
