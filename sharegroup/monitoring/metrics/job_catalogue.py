"""The metrics of the job, each declared once. docs/metrics.md is generated from these texts.

`kafka` is the corresponding metric of Kafka's brokers: "type/name" for JMX metrics, "group:name" for others.
Kafka's meters are counters here: Prometheus' `rate()` of a counter corresponds to Kafka's `...PerSec` or `-rate`.
"""

from sharegroup.monitoring.metrics.metric import Metric, MetricKind

_GROUP = ("group",)
_PARTITION = ("group", "topic", "partition")
_QUERY = ("query",)
#: Bounds for durations from milliseconds to a minute.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


def _counter(name: str, text: str, labels: tuple[str, ...] = (), kafka: str = "") -> Metric:
    return Metric(f"sharegroup_{name}_total", MetricKind.COUNTER, text, labels, kafka)


def _gauge(name: str, text: str, labels: tuple[str, ...] = (), kafka: str = "") -> Metric:
    return Metric(f"sharegroup_{name}", MetricKind.GAUGE, text, labels, kafka)


def _histogram(name: str, text: str, labels: tuple[str, ...], bounds: tuple[float, ...], kafka: str = "") -> Metric:
    return Metric(f"sharegroup_{name}", MetricKind.HISTOGRAM, text, labels, kafka, bounds)


# -- share-partitions, by group ---------------------------------------------------------------------------------------

LAG = _gauge("lag_records", "Records that are not finished (KIP-1226).", _GROUP)
AVAILABLE = _gauge("available_records", "Records that members can acquire: the lag without acquired records.", _GROUP)
ACQUIRED = _gauge("acquired_records", "Records that are locked for members.", _GROUP)
RESERVED = _gauge(
    "reserved_records",
    "Offsets after the end of the log that are reserved for gateways, and have no records yet.",
    _GROUP,
)
IN_FLIGHT = _gauge(
    "in_flight_records",
    "Records from start offset to end offset, finished or not.",
    _GROUP,
    "SharePartitionMetrics/InFlightMessageCount",
)
MANAGED = _gauge("led_share_partitions", "Share-partitions that the job leads.", _GROUP)
OLDEST = _gauge(
    "oldest_unfinished_age_seconds",
    "Minimum age of the oldest unfinished record: the time since the job first observed the record in the log. 0: no "
    "record is unfinished.",
    _GROUP,
)
PARTITION_LAG = _gauge("partition_lag_records", "Lag of a share-partition (see metrics.max.partitions).", _PARTITION)
PARTITION_ACQUIRED = _gauge(
    "partition_acquired_records", "Records of a share-partition that are locked for members.", _PARTITION
)
PARTITION_IN_FLIGHT = _gauge(
    "partition_in_flight_records",
    "Records in flight in a share-partition.",
    _PARTITION,
    "SharePartitionMetrics/InFlightMessageCount",
)

# -- deliveries -------------------------------------------------------------------------------------------------------

RECORDS_ACQUIRED = _counter("records_acquired", "Records that were acquired.", _GROUP)
ACKNOWLEDGEMENTS = _counter(
    "record_acknowledgements",
    "Records that were acknowledged, by ack_type: accept, release, reject, renew, gap.",
    ("group", "ack_type"),
    "ShareGroupMetrics/RecordAcknowledgementsPerSec",
)
LOCK_TIMEOUTS = _counter(
    "acquisition_lock_timeouts",
    "Records whose lock expired.",
    _GROUP,
    "SharePartitionMetrics/AcquisitionLockTimeoutPerSec",
)
ARCHIVED = _counter(
    "records_archived",
    "Records that were archived, by reason: delivery_limit (share.delivery.count.limit), or the cause in delivery_log.",
    ("group", "reason"),
)
GIVEN_BACK = _counter(
    "records_given_back", "Records that were returned unfinished, by cause: member_left, unacquire.", ("group", "cause")
)
DELIVERY_COUNT = _histogram(
    "delivery_count", "Delivery counts of acquired records. 1: first delivery.", _GROUP,
    (1, 2, 3, 4, 5, 10, 25),
)  # fmt: skip

# -- groups -----------------------------------------------------------------------------------------------------------

GROUPS = _gauge(
    "groups", "Groups, by state: Empty, Stable, Dead.", ("state",), "group-coordinator-metrics:share-group-count"
)
MEMBERS = _gauge("members", "Members of a group.", _GROUP)
REBALANCES = _counter(
    "rebalances",
    "Rebalances, counted as group epochs. There may be several in a micro-batch.",
    _GROUP,
    "group-coordinator-metrics:share-group-rebalance-count",
)
SHARE_PARTITIONS = _gauge(
    "share_partitions",
    "Share-partitions in the table, by status: initializing, initialized, deleting.",
    ("status",),
    "share-coordinator-metrics:num-partitions",
)

# -- the two queries --------------------------------------------------------------------------------------------------

LEADER_EPOCH = _gauge("leader_epoch", "Leader epoch of the query. 0: it is not the leader.", _QUERY)
RUNNING = _gauge("query_running", "1 while the query runs.", _QUERY)
STARTS = _counter("query_starts", "Starts of the query, including the first.", _QUERY)
LOAD_SECONDS = _histogram(
    "load_seconds",
    "Duration of loading share-partitions: from a start of the query to the end of its first micro-batch, and each "
    "later micro-batch that loads share-partitions.",
    _QUERY,
    (*_SECONDS, 120.0, 300.0),
    "ShareGroupMetrics/PartitionLoadTimeMs; share-coordinator-metrics:partition-load-time-avg, -max",
)
BATCH_SECONDS = _histogram(
    "micro_batch_seconds",
    "Duration of micro-batches, from the start of the operator to the responses.",
    _QUERY,
    _SECONDS,
)
PART_SECONDS = _counter(
    "micro_batch_part_seconds",
    "Time in micro-batches, by part: operator, commit (the first table), tables (the others), answer (responses), "
    "hand_over (data for the other query).",
    ("query", "part"),
)
BATCH_RUNS_SECONDS = _gauge(
    "micro_batch_running_seconds", "Time since the start of the running micro-batch. 0: none.", _QUERY
)
WRITE_SECONDS = _histogram(
    "state_write_seconds",
    "Duration of commits to the first table of the query, which make a micro-batch durable.",
    _QUERY,
    _SECONDS,
    "share-coordinator-metrics:write-latency-avg",
)
STATE_RECORDS = _counter(
    "state_records",
    "Rows written to share_group_state, by record_type: ShareSnapshot, ShareUpdate, Tombstone.",
    ("record_type",),
    "share-coordinator-metrics:write-total",
)
REQUEST_ROWS = _counter("request_rows", "Rows of the query's request topic that were processed.", _QUERY)
REQUESTS_REJECTED = _counter(
    "refused_requests", "Responses with an error, by the name of the error.", ("query", "error")
)
REJECTED_ROWS = _counter(
    "rejected_request_rows", "Rows of the request topic that are invalid and cannot be responded to.", _QUERY
)
BACKLOG = _gauge(
    "request_backlog_rows",
    "Rows that the last micro-batch left unread in the request topic: the maximum of its partitions.",
    _QUERY,
)
DELIVERY_LOG_DEFERRED = _gauge(
    "delivery_log_owed_rows", "Rows of delivery_log that are durable but not yet written to the table."
)
UPKEEPS = _counter(
    "upkeeps", "Finished runs of the upkeep of tables (compaction, deletion of old rows), successful or not."
)
UPKEEP_SECONDS = _counter("upkeep_seconds", "Time spent on upkeep, in its own process.")
UPKEEP_FAILURES = _counter("upkeep_failures", "Runs of the upkeep that failed.")

# -- Spark's own ------------------------------------------------------------------------------------------------------

SPARK_PART_SECONDS = _counter(
    "spark_part_seconds", "Time in micro-batches as reported by Spark, by its names of the parts.", ("query", "part")
)
SPARK_BATCHES = _counter("spark_micro_batches", "Micro-batches reported by Spark.", _QUERY)
SPARK_INPUT_ROWS = _counter("spark_input_rows", "Input rows of micro-batches, as reported by Spark.", _QUERY)
SPARK_STATE_ROWS = _gauge("spark_state_rows", "Keys in the state of the operator.", _QUERY)
SPARK_STATE_BYTES = _gauge("spark_state_memory_bytes", "Memory used by the state stores of the operator.", _QUERY)

JOB_METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
