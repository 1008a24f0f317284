"""`ShareConsumer`, with which a Spark job becomes a member of a share group."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from sharegroup.config import JobConfig
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.kafka_clients.consumer_metrics import FETCH_MANAGER
from sharegroup.kafka_clients.kafka_clients import spark_options
from sharegroup.kafka_clients.row_topics.row_channel import RowChannel, RowTopics
from sharegroup.member.member import Member
from sharegroup.member.member_logic import MemberSettings
from sharegroup.member.offer_file import OfferFile
from sharegroup.member.ranges import ROW_SCHEMA
from sharegroup.member.subscription import Subscription
from sharegroup.spark.job.checkpoint import read_checkpoint
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch
from sharegroup.spark.share_consumer.batch_runner import BatchRunner, Handler
from sharegroup.spark.share_consumer.consumer_query import ShareConsumerQuery
from sharegroup.spark.share_consumer.group_name import check_group_type
from sharegroup.spark.share_consumer.source import READER, SOURCE_NAME
from sharegroup.spark.shipping import register_source

_DEFAULTS = JobConfig()


class ShareConsumer:
    """A member of a share group whose records are handled in Spark batches (KIP-932, KafkaShareConsumer).

        def handle(records: DataFrame, batch_id: int) -> DataFrame | None:
            records.write.format("delta").mode("append").save(path)

        consumer = ShareConsumer(spark, bootstrap_servers="localhost:9092", group_id="orders", topics=["orders"],
                                 checkpoint="/data/orders")
        consumer.start(handle).await_termination()

    The records have the columns of Spark's Kafka source - key, value, topic, partition, offset, timestamp,
    timestampType, headers - and `delivery_count`, which is 1 at the first delivery.

    The handler's return value acknowledges the records. None accepts all records. A DataFrame (topic, partition,
    offset, acknowledge_type) gives individual records a type: 'accept', 'release' or 'reject' (or 1, 2, 3). Records
    that it does not contain are accepted. If the handler raises or returns an invalid result, the whole batch is
    released, and the query continues. The batch is delivered again with a higher delivery count. After `max_failures`
    such batches in a row the query stops, and `await_termination` raises the last exception.

    Locks are renewed while the handler runs, for at most `max_processing_ms`. After that they expire and the records
    become available to other members, as with a Kafka consumer that exceeds max.poll.interval.ms. The handler's result
    then counts only for records that no other member has acquired. A handler receives each record at least once.
    `DeltaSink` writes each record exactly once.

    `checkpoint` is a directory on any file system that Spark supports. The member id is derived from it, so a restarted
    job is the same member and keeps its locks until they expire. With `group_instance_id` it is a static member
    (docs/static_members.md), and its member id is derived from that name. The locks of its current batch then last for
    share.static.record.lock.duration.ms, so that no other member gets the batch while the job restarts. If two
    processes run as one member, the process that joined last is served, and the query of the other process ends with
    FENCED_INSTANCE_ID.

    Instead of `topics`, `pattern` is a regular expression that matches whole topic names. The member finds new matching
    topics within 30 seconds. Names that begin with two underscores never match. `ShareConsumerQuery.subscribe` changes
    the subscription while the query runs.

    `max_records` is the maximum number of records in a batch. `kafka` holds properties with Java's names for the
    connections and for Spark's reader. Its isolation.level is ignored, because the group configures it. Times are in
    milliseconds. Spark Connect is not supported, because the handler runs in the driver.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        bootstrap_servers: str,
        group_id: str,
        topics: Sequence[str] | None = None,
        pattern: str | None = None,
        checkpoint: str,
        max_records: int = 1_000_000,
        kafka: Mapping[str, str] | None = None,
        client_id: str = "spark-share-consumer",
        include_headers: bool = True,
        max_failures: int = 3,
        max_processing_ms: int = 300_000,
        fetch_max_wait_ms: int = 10_000,
        acknowledge_timeout_ms: int = 300_000,
        group_instance_id: str | None = None,
        share_group_requests_topic: str = _DEFAULTS.group_requests_topic,
        share_partition_requests_topic: str = _DEFAULTS.partition_requests_topic,
        share_group_responses_topic: str = _DEFAULTS.responses_topic,
    ) -> None:
        subscription = Subscription.from_arguments(topics, pattern)
        if min(max_records, max_failures, max_processing_ms) < 1:
            raise ValueError("max_records, max_failures and max_processing_ms must be at least 1")
        if group_instance_id is not None and not group_instance_id.strip():
            raise ValueError("group_instance_id must not be empty")
        self._spark = spark
        self._checkpoint = checkpoint if "://" in checkpoint else str(Path(checkpoint).resolve())
        self._settings = MemberSettings(
            group_id,
            member_id(self._checkpoint if group_instance_id is None else group_instance_id, group_id),
            subscription.topics,
            max_records,
            client_id,
            socket.gethostname(),
            fetch_max_wait_ms,
            acknowledge_timeout_ms,
            max_processing_ms,
            group_instance_id=group_instance_id,
            pattern=subscription.pattern,
        )
        properties = dict(kafka or {})
        self._python_kafka = python_properties(bootstrap_servers, properties)
        self._reader_options = spark_options(bootstrap_servers, properties)
        self._row_topics = RowTopics(
            share_group_requests_topic, share_partition_requests_topic, share_group_responses_topic
        )
        self._include_headers = include_headers
        self._max_failures = max_failures
        self._query: ShareConsumerQuery | None = None
        self._runner: BatchRunner | None = None

    @property
    def member_id(self) -> str:
        """The member id: a UUID derived from the group and from the checkpoint's path or the group instance id."""
        return self._settings.member_id

    @property
    def batch(self) -> AcquiredBatch:
        """The batch that the handler is processing. Raises RuntimeError outside of the handler."""
        if self._runner is None or self._runner.current is None:
            raise RuntimeError("no batch is being processed: use `batch` only inside the handler")
        return self._runner.current

    @property
    def holds_batch(self) -> bool:
        """Whether the member holds all locks of `batch`.

        If not, other members may have its records. The possible causes are: the batch exceeded `max_processing_ms`; the
        process was suspended, or could not reach Kafka, for longer than its locks last; a topic was deleted.
        """
        return self._runner is not None and self._runner.holds_batch

    def start(self, handle: Handler) -> ShareConsumerQuery:
        """Join the group and call `handle` for each batch, on a thread of Spark's. A second call raises RuntimeError.

        Raises GroupIdNotFoundError (of kafka-python) if the brokers have a group of another type with this name. This
        is not checked if the checkpoint exists already.
        """
        if self._query is not None:
            raise RuntimeError("this consumer was already started; create another one")
        if read_checkpoint(self._spark, self._checkpoint) is None:
            check_group_type(self._python_kafka, self._settings.group_id)
        offers = tempfile.TemporaryDirectory(prefix="share-consumer-")
        stop = threading.Event()
        channel = RowChannel(self._python_kafka, self._row_topics, self.member_id)
        member = Member(self._settings, channel, OfferFile(offers.name), stop.set)
        runner = self._runner = BatchRunner(
            member, handle, self._reader_options, self._include_headers, self._max_failures, stop.set
        )
        register_source(self._spark, SOURCE_NAME, READER, ROW_SCHEMA)
        options = {"offers": offers.name}
        source = self._spark.readStream.format(SOURCE_NAME).option("options", json.dumps(options))
        writer = (
            _observe_consumed(source.load())
            .writeStream.queryName(f"share consumer of {self._settings.group_id}, {self.member_id}")
            .option("checkpointLocation", self._checkpoint)
            .trigger(processingTime="0 seconds")  # the source waits for the next offer
            .foreachBatch(runner)
        )
        self._query = ShareConsumerQuery(member, runner, stop, offers, writer.start)
        return self._query

    def __enter__(self) -> ShareConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._query is not None:
            self._query.stop()


def member_id(name: str, group_id: str) -> str:
    """Return the member id, a UUID derived from the group id and `name` (checkpoint path or group instance id)."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name}\n{group_id}"))


def _observe_consumed(ranges: DataFrame) -> DataFrame:
    """Add observed metrics to `ranges`, the rows of the source. A row is an acquired range.

    The metrics are the number of records, the maximum number of records in a range, and the number of ranges. Spark
    reports them for each batch.
    """
    records = F.col("last_offset") - F.col("first_offset") + 1
    return ranges.observe(
        FETCH_MANAGER,
        F.coalesce(F.sum(records), F.lit(0)).alias("records-consumed"),
        F.coalesce(F.max(records), F.lit(0)).alias("records-per-range-max"),
        F.count(F.lit(1)).alias("ranges"),
    )
