"""The job's metrics, each declared once: docs/metrics.md lists them by these texts.

`kafka` is the broker metric that a metric stands for: "type/name" of the JMX ones, "group:name" of Kafka's own.
Meters are counters here: `rate()` makes Kafka's `...PerSec` and `-rate` of them.
"""

from __future__ import annotations

from sharegroup.monitoring.metrics.metric import Kind, Metric

_GROUP = ("group",)
_PARTITION = ("group", "topic", "partition")
_QUERY = ("query",)
#: Of what takes from milliseconds to a minute.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


def _counter(name: str, text: str, labels: tuple[str, ...] = (), kafka: str = "") -> Metric:
    return Metric(f"sharegroup_{name}_total", Kind.COUNTER, text, labels, kafka)


def _gauge(name: str, text: str, labels: tuple[str, ...] = (), kafka: str = "") -> Metric:
    return Metric(f"sharegroup_{name}", Kind.GAUGE, text, labels, kafka)


def _histogram(name: str, text: str, labels: tuple[str, ...], bounds: tuple[float, ...], kafka: str = "") -> Metric:
    return Metric(f"sharegroup_{name}", Kind.HISTOGRAM, text, labels, kafka, bounds)


# -- share-partitions, by group ---------------------------------------------------------------------------------------

LAG = _gauge("lag_records", "Records that are not finished (KIP-1226).", _GROUP)
AVAILABLE = _gauge("available_records", "Records that members could get: lag without what is acquired.", _GROUP)
ACQUIRED = _gauge("acquired_records", "Records that members hold, under their locks.", _GROUP)
IN_FLIGHT = _gauge(
    "in_flight_records",
    "Records from start offset to end offset, finished or not.",
    _GROUP,
    "SharePartitionMetrics/InFlightMessageCount",
)
LED = _gauge("led_share_partitions", "Share-partitions that the job leads.", _GROUP)
OLDEST = _gauge(
    "oldest_unfinished_age_seconds",
    "At least so old is the oldest record that is not finished: from when its log was seen to reach it. 0: none.",
    _GROUP,
)
PARTITION_LAG = _gauge("partition_lag_records", "The lag of one share-partition (metrics.max.partitions).", _PARTITION)
PARTITION_ACQUIRED = _gauge(
    "partition_acquired_records", "Records of one share-partition that members hold.", _PARTITION
)
PARTITION_IN_FLIGHT = _gauge(
    "partition_in_flight_records",
    "Records in flight of one share-partition.",
    _PARTITION,
    "SharePartitionMetrics/InFlightMessageCount",
)

# -- deliveries -------------------------------------------------------------------------------------------------------

RECORDS_ACQUIRED = _counter("records_acquired", "Records that were acquired.", _GROUP)
ACKNOWLEDGEMENTS = _counter(
    "record_acknowledgements",
    "Records that were acknowledged: ack_type accept, release, reject, renew, gap.",
    ("group", "ack_type"),
    "ShareGroupMetrics/RecordAcknowledgementsPerSec",
)
LOCK_TIMEOUTS = _counter(
    "acquisition_lock_timeouts",
    "Records whose lock ran out.",
    _GROUP,
    "SharePartitionMetrics/AcquisitionLockTimeoutPerSec",
)
ARCHIVED = _counter(
    "records_archived",
    "Records that were archived: reason delivery_limit (share.delivery.count.limit), or the cause of delivery_log.",
    ("group", "reason"),
)
GIVEN_BACK = _counter(
    "records_given_back", "Records that came back unfinished: cause member_left, unacquire.", ("group", "cause")
)
DELIVERY_COUNT = _histogram(
    "delivery_count", "Delivery counts of records as they were acquired; 1: the first time.", _GROUP,
    (1, 2, 3, 4, 5, 10, 25),
)  # fmt: skip

# -- groups -----------------------------------------------------------------------------------------------------------

GROUPS = _gauge(
    "groups", "Groups: state Empty, Stable, Dead.", ("state",), "group-coordinator-metrics:share-group-count"
)
MEMBERS = _gauge("members", "Members.", _GROUP)
REBALANCES = _counter(
    "rebalances",
    "Group epochs: each is a rebalance, and several may be in one micro-batch.",
    _GROUP,
    "group-coordinator-metrics:share-group-rebalance-count",
)
SHARE_PARTITIONS = _gauge(
    "share_partitions",
    "Share-partitions in the table: status initializing, initialized, deleting.",
    ("status",),
    "share-coordinator-metrics:num-partitions",
)

# -- the two queries --------------------------------------------------------------------------------------------------

LEADER_EPOCH = _gauge("leader_epoch", "The epoch with which the query leads; 0: it does not.", _QUERY)
RUNNING = _gauge("query_running", "1 while the query runs.", _QUERY)
STARTS = _counter("query_starts", "Starts of the query; the first one counts.", _QUERY)
LOAD_SECONDS = _histogram(
    "load_seconds",
    "Loads of share-partitions: from a start of the query to the end of its first micro-batch, and each later "
    "micro-batch that begins to lead some.",
    _QUERY,
    (*_SECONDS, 120.0, 300.0),
    "ShareGroupMetrics/PartitionLoadTimeMs; share-coordinator-metrics:partition-load-time-avg, -max",
)
BATCH_SECONDS = _histogram(
    "micro_batch_seconds", "Micro-batches, from the operator's run to the answers.", _QUERY, _SECONDS
)
PART_SECONDS = _counter(
    "micro_batch_part_seconds",
    "Time in micro-batches: part operator, commit (the first table), tables (the others), answer, hand_over.",
    ("query", "part"),
)
BATCH_RUNS_SECONDS = _gauge("micro_batch_running_seconds", "How long the present micro-batch runs; 0: none.", _QUERY)
WRITE_SECONDS = _histogram(
    "state_write_seconds",
    "Commits of the query's first table, which make a micro-batch durable.",
    _QUERY,
    _SECONDS,
    "share-coordinator-metrics:write-latency-avg",
)
STATE_RECORDS = _counter(
    "state_records",
    "Rows of share_group_state: record_type ShareSnapshot, ShareUpdate, Tombstone.",
    ("record_type",),
    "share-coordinator-metrics:write-total",
)
REQUEST_ROWS = _counter("request_rows", "Rows of the query's request topic that were taken in.", _QUERY)
REFUSED = _counter("refused_requests", "Responses with an error, by the error's name.", ("query", "error"))
REJECTED_ROWS = _counter("rejected_request_rows", "Rows of the request topic that nobody can be answered for.", _QUERY)
BACKLOG = _gauge(
    "request_backlog_rows",
    "Rows that the request topic had and the newest micro-batch did not take in, of the partition with the most.",
    _QUERY,
)
OWED = _gauge("delivery_log_owed_rows", "Rows of delivery_log that are durable, and not in the table yet.")
UPKEEPS = _counter("upkeeps", "Upkeeps of a query's tables that came to an end, good or bad.")
UPKEEP_SECONDS = _counter("upkeep_seconds", "Time that upkeep took, in its own process.")
UPKEEP_FAILURES = _counter("upkeep_failures", "Upkeeps that did not come to their end.")

# -- Spark's own ------------------------------------------------------------------------------------------------------

SPARK_PART_SECONDS = _counter(
    "spark_part_seconds", "Time in micro-batches as Spark tells it, by its names of the parts.", ("query", "part")
)
SPARK_BATCHES = _counter("spark_micro_batches", "Micro-batches that Spark has told of.", _QUERY)
SPARK_INPUT_ROWS = _counter("spark_input_rows", "Input rows of the micro-batches.", _QUERY)
SPARK_STATE_ROWS = _gauge("spark_state_rows", "Keys in the operator's state.", _QUERY)
SPARK_STATE_BYTES = _gauge("spark_state_memory_bytes", "Memory of the operator's state stores.", _QUERY)

JOB_METRICS: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
