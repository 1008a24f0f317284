"""The gateway's metrics, each declared once, as `job_catalogue` does the job's."""

from __future__ import annotations

from sharegroup.monitoring.metrics.metric import Kind, Metric

_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def _counter(name: str, text: str, labels: tuple[str, ...] = (), kafka: str = "") -> Metric:
    return Metric(f"sharegroup_gateway_{name}_total", Kind.COUNTER, text, labels, kafka)


def _gauge(name: str, text: str, labels: tuple[str, ...] = (), kafka: str = "") -> Metric:
    return Metric(f"sharegroup_gateway_{name}", Kind.GAUGE, text, labels, kafka)


# -- clients ----------------------------------------------------------------------------------------------------------

CONNECTIONS = _gauge("connections", "Client connections.")
CONNECTIONS_ACCEPTED = _counter("connections_accepted", "Client connections that were taken.")
CONNECTIONS_REFUSED = _counter(
    "connections_refused", "Client connections that were refused: too many, of all clients or of one address."
)
CONNECTIONS_IDLE = _counter("connections_closed_idle", "Client connections that were closed as they were silent.")
BYTES_IN = _counter("received_bytes", "Bytes of requests, by api: a name, or `passed_through`.", ("api",))
BYTES_OUT = _counter("sent_bytes", "Bytes of responses, by api: a name, or `passed_through`.", ("api",))
THROTTLED_SECONDS = _counter("throttled_seconds", "Time that clients had to wait for their quotas.")
REQUESTS = _counter(
    "requests",
    "Requests, by api: a name, or `passed_through`.",
    ("api",),
    "BrokerTopicMetrics/TotalShareFetchRequestsPerSec, TotalShareAcknowledgementRequestsPerSec",
)
REQUESTS_FAILED = _counter(
    "requests_failed",
    "Requests of the gateway's own APIs that were answered with an error of the whole request.",
    ("api", "error"),
    "BrokerTopicMetrics/FailedShareFetchRequestsPerSec, FailedShareAcknowledgementRequestsPerSec",
)
REQUEST_SECONDS = Metric(
    "sharegroup_gateway_request_seconds",
    Kind.HISTOGRAM,
    "Requests of the gateway's own APIs, from the decoding to the answer; a fetch waits for records meanwhile.",
    ("api",),
    bounds=_SECONDS,
)

# -- share sessions ---------------------------------------------------------------------------------------------------

SESSIONS = _gauge("share_sessions", "Share sessions.", ("node",), "ShareSessionCache/ShareSessionsCount")
SESSION_PARTITIONS = _gauge(
    "share_session_partitions", "Partitions in share sessions.", ("node",), "ShareSessionCache/SharePartitionsCount"
)
EVICTIONS = _counter(
    "share_session_evictions",
    "Share sessions that ended with their connection.",
    ("node",),
    "ShareSessionCache/ShareSessionEvictionsPerSec",
)
RECORDS_AHEAD = _gauge("read_ahead_records", "Records that were acquired for members and not sent to them yet.")

# -- the job and the brokers ------------------------------------------------------------------------------------------

BATCH_CACHE_BYTES = _gauge("batch_cache_bytes", "Memory of record batches that were read from the brokers.")
WAITING = _gauge("job_requests_waiting", "Requests that wait for the job's response.", ("cell",))
TIMEOUTS = _counter("job_timeouts", "Requests that the job did not answer in gateway.job.timeout.ms.", ("cell",))
READY = _gauge("ready", "1 while /readyz says so.")

GATEWAY_METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
