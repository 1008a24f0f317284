"""The metrics of the gateway, each declared once (see `job_catalogue`)."""

from sharegroup.monitoring.metrics.metric import Metric, MetricKind

_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def _counter(name: str, text: str, labels: tuple[str, ...] = (), kafka: str = "") -> Metric:
    return Metric(f"sharegroup_gateway_{name}_total", MetricKind.COUNTER, text, labels, kafka)


def _gauge(name: str, text: str, labels: tuple[str, ...] = (), kafka: str = "") -> Metric:
    return Metric(f"sharegroup_gateway_{name}", MetricKind.GAUGE, text, labels, kafka)


# -- clients ----------------------------------------------------------------------------------------------------------

CONNECTIONS = _gauge("connections", "Open client connections.")
CONNECTIONS_ACCEPTED = _counter("connections_accepted", "Client connections that were accepted.")
CONNECTIONS_REJECTED = _counter(
    "connections_refused", "Client connections that were rejected because of a limit for all or for one IP address."
)
CONNECTIONS_IDLE = _counter("connections_closed_idle", "Client connections that were closed because they were idle.")
BYTES_IN = _counter("received_bytes", "Bytes of requests, by api (the API's name, or `passed_through`).", ("api",))
BYTES_OUT = _counter("sent_bytes", "Bytes of responses, by api (the API's name, or `passed_through`).", ("api",))
THROTTLED_SECONDS = _counter("throttled_seconds", "Time that clients had to wait because of quotas.")
REQUESTS = _counter(
    "requests",
    "Requests, by api (the API's name, or `passed_through`).",
    ("api",),
    "BrokerTopicMetrics/TotalShareFetchRequestsPerSec, TotalShareAcknowledgementRequestsPerSec",
)
REQUESTS_FAILED = _counter(
    "requests_failed",
    "Requests handled by the gateway itself whose response has a top-level error.",
    ("api", "error"),
    "BrokerTopicMetrics/FailedShareFetchRequestsPerSec, FailedShareAcknowledgementRequestsPerSec",
)
REQUEST_SECONDS = Metric(
    "sharegroup_gateway_request_seconds",
    MetricKind.HISTOGRAM,
    "Duration of requests handled by the gateway itself, from decoding to the response. A fetch includes its wait for "
    "records.",
    ("api",),
    bounds=_SECONDS,
)

# -- share sessions ---------------------------------------------------------------------------------------------------

SESSIONS = _gauge("share_sessions", "Open share sessions.", ("node",), "ShareSessionCache/ShareSessionsCount")
SESSION_PARTITIONS = _gauge(
    "share_session_partitions", "Partitions in share sessions.", ("node",), "ShareSessionCache/SharePartitionsCount"
)
EVICTIONS = _counter(
    "share_session_evictions",
    "Share sessions that were closed with their connection.",
    ("node",),
    "ShareSessionCache/ShareSessionEvictionsPerSec",
)
RECORDS_AHEAD = _gauge("read_ahead_records", "Records that were acquired for members but not yet sent to them.")
RECORDS_GIVEN = _counter(
    "acquired_records",
    "Records acquired for members of this gateway, by way: `batch` (by a micro-batch) or `reserved` (assigned by the "
    "gateway itself, from its reservation or after another member has released them).",
    ("way",),
)
RECORDS_RESERVED = _gauge("reserved_records", "Offsets that are reserved for this gateway and not assigned yet.")
ASSIGNMENT_SECONDS = Metric(
    "sharegroup_gateway_assignment_seconds",
    MetricKind.HISTOGRAM,
    "Time from the choice of a member for reserved or released records until the `assign` or `reassign` row is "
    "appended. From then on, the records can be sent to the member.",
    bounds=_SECONDS,
)

# -- the job and the brokers ------------------------------------------------------------------------------------------

BATCH_CACHE_BYTES = _gauge("batch_cache_bytes", "Memory used by cached record batches from the brokers.")
WAITING = _gauge("job_requests_waiting", "Requests that wait for a response of the job.", ("cell",))
TIMEOUTS = _counter("job_timeouts", "Requests without a response of the job within gateway.job.timeout.ms.", ("cell",))
READY = _gauge("ready", "1 while /readyz returns 200.")

GATEWAY_METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
