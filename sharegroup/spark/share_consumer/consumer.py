"""`ShareConsumer`: how a Spark job becomes a member of a share group."""

from __future__ import annotations

import json
import socket
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from pyspark.sql import SparkSession

from sharegroup.config import JobConfig
from sharegroup.kafka_clients.client_settings import python_properties
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
from sharegroup.spark.share_consumer.group_name import refuse_other_kind
from sharegroup.spark.share_consumer.observed import observed
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
    timestampType, headers - and `delivery_count`, 1 at the first delivery.

    What the handler returns decides: None accepts all; a DataFrame (topic, partition, offset, acknowledge_type) names
    the exceptions, as 'accept', 'release' or 'reject' (or 1, 2, 3), and the rest is accepted. When it raises, or
    returns something wrong, the whole batch is released, to be delivered again with a higher delivery count, and the
    query goes on; after `max_failures` such batches in a row it stops, and `await_termination` raises the last
    exception. Locks are renewed while the handler runs, for at most `max_processing_ms`: then its records go to others
    when their locks run out, as those of a member of Kafka's that exceeds max.poll.interval.ms, and what the handler
    returns in the end counts only for those that nobody has taken. A handler sees records at least once: for exactly
    once there is `DeltaSink`.

    `checkpoint` is a directory on any file system that Spark knows; the member's id is made from it, so that the job is
    the same member after a restart and keeps its locks, while they last. With `group_instance_id` it is a static
    member (docs/static_members.md): its id is made from that name, and the locks of the batch that it works on last for
    share.static.record.lock.duration.ms, so that nobody else gets the batch while it restarts. Of two processes of a
    member the latest is served, and the query of the other one ends with FENCED_INSTANCE_ID.

    In place of `topics` there may be a `pattern`, a regular expression that matches whole names: topics that match are
    read when the member finds them, within 30 seconds. Topics whose names begin with two underscores are none of them.
    `ShareConsumerQuery.subscribe` changes either while the query runs.

    `max_records` bounds a batch. `kafka` holds properties with
    Java's names, for the connections and for Spark's reader (but isolation.level is the group's, whatever is set
    here). Times are milliseconds. Spark Connect is not supported: the handler runs in the driver.
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
        subscription = Subscription.of(topics, pattern)
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
        """The member's id, a UUID made from the group and the checkpoint's path, or a static member's name."""
        return self._settings.member_id

    @property
    def batch(self) -> AcquiredBatch:
        """The batch that the handler is working on; RuntimeError outside of it."""
        if self._runner is None or self._runner.current is None:
            raise RuntimeError("no batch is being handled")
        return self._runner.current

    @property
    def holds_batch(self) -> bool:
        """Whether the locks of `batch` are all held. False: others may have its records, because of `max_processing_ms`
        or because this process stood still or could not reach Kafka for longer than its locks last; or a topic of it
        was deleted."""
        return self._runner is not None and self._runner.holds_batch

    def start(self, handle: Handler) -> ShareConsumerQuery:
        """Join the group and run `handle` for each batch, from a thread of Spark's; a consumer is started once.

        Raises GroupIdNotFoundError (kafka-python's) if the checkpoint is new and the brokers have a group of another
        kind with this name. A member that goes on from its checkpoint is served all the same.
        """
        if self._query is not None:
            raise RuntimeError("this consumer was started before; make another one")
        if read_checkpoint(self._spark, self._checkpoint) is None:
            refuse_other_kind(self._python_kafka, self._settings.group_id)
        offers = tempfile.TemporaryDirectory(prefix="share-consumer-")
        stop = ShareConsumerQuery.stop_flag()
        channel = RowChannel(self._python_kafka, self._row_topics, self.member_id)
        member = Member(self._settings, channel, OfferFile(offers.name), stop.set)
        runner = self._runner = BatchRunner(
            member, handle, self._reader_options, self._include_headers, self._max_failures, stop.set
        )
        register_source(self._spark, SOURCE_NAME, READER, ROW_SCHEMA)
        options = {"offers": offers.name}
        source = self._spark.readStream.format(SOURCE_NAME).option("options", json.dumps(options))
        writer = (
            observed(source.load())
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
    """The same checkpoint or group instance id, and the same group, give the same member."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name}\n{group_id}"))
