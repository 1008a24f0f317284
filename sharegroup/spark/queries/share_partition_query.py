"""The share_partition query. It reads request rows and log offsets, and outputs state, delivery log and responses."""

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from sharegroup.config import Config
from sharegroup.core.operators import rows
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.job.knowledge.shard_keys import UNKEYED
from sharegroup.job.logs.log_poll import LogPoll
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.kafka_clients.kafka_clients import spark_options
from sharegroup.spark.queries.log_offsets_source import READER, SOURCE_NAME, SOURCE_SCHEMA
from sharegroup.spark.queries.operators import OUTPUT_SCHEMA, STATE_SCHEMA, share_partition_operator
from sharegroup.spark.shipping import register_source
from sharegroup.storage.following.config_poll import file_values
from sharegroup.storage.schemas import (
    SHARE_GROUP_MEMBERS,
    SHARE_GROUP_STATE,
    SHARE_GROUP_STATE_BASE,
    SHARE_PARTITIONS,
    table_path,
)

NAME = "share_partition"
#: How long a source waits for changes before it returns to Spark's trigger, in ms.
IDLE_BLOCK_MS = 2_000
#: The tables that the query's source reads.
_READ = (SHARE_PARTITIONS, SHARE_GROUP_STATE, SHARE_GROUP_STATE_BASE, SHARE_GROUP_MEMBERS)
_EARLIEST = -2  # Spark's number for the earliest offset


def request_rows(spark: SparkSession, config: Config, topic: str, positions: dict[int, int]) -> DataFrame:
    """Return a request topic as a stream of (row, value): the operator's input, and the JSON text of the request.

    With a checkpoint the query continues where it stopped. Without one it starts at `positions`; a partition without a
    position is read from its start. Rows that retention has deleted are skipped. If such a row would have acknowledged
    records, the locks of these records expire, and they are delivered again. Rows of aborted transactions are not read.
    """
    starting = json.dumps({topic: _starting_offsets(config, topic, positions)})
    stream = (
        spark.readStream.format("kafka")
        .options(**spark_options(config.job.bootstrap_servers, config.job.kafka))
        .option("subscribe", topic)
        .option("startingOffsets", starting)
        .option("maxOffsetsPerTrigger", config.job.max_requests_per_batch)
        .option("failOnDataLoss", "false")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    return request_texts(stream)


def request_texts(records: DataFrame) -> DataFrame:
    """Return Kafka records of a request topic as (row, value).

    `row` is the operator's input. `value` is the request's JSON, from which the caller computes the operator's key.
    Invalid UTF-8 becomes U+FFFD, because otherwise the batch would fail in Arrow.
    """
    value = F.make_valid_utf8(F.coalesce(F.col("value").cast("string"), F.lit("")))
    row = F.concat_ws(
        "\t",
        F.lit(rows.REQUEST),
        F.col("partition").cast("string"),
        F.col("offset").cast("string"),
        F.unix_millis("timestamp").cast("string"),
        value,
    )
    return records.select(row.alias("row"), value.alias("value"))


def keyed_by_shard(requests: DataFrame, shards: int) -> DataFrame:
    """Return (shard_key, row) for the result of `request_texts`. Rows without a share-partition have key `UNKEYED`."""
    names = F.from_json("value", "group_id STRING, topic_id STRING, partition INT").alias("names")
    shard = F.pmod(F.col("names.partition"), F.lit(shards)).cast("string")
    key = F.concat(F.col("names.group_id"), F.lit("\t"), F.col("names.topic_id"), F.lit("\t"), shard)
    return requests.select("row", names).select(F.coalesce(key, F.lit(UNKEYED)).alias("shard_key"), "row")


def _starting_offsets(config: Config, topic: str, positions: dict[int, int]) -> dict[str, int]:
    """Return {partition: offset to start at} for all partitions of a topic, because Spark requires all of them."""
    poll = LogPoll(python_properties(config.job.bootstrap_servers, config.job.kafka))
    try:
        partitions = [partition.partition for partition in poll.partitions_of(topic)]
    finally:
        poll.close()
    return {str(partition): positions.get(partition, _EARLIEST) for partition in partitions}


def share_partition_rows(spark: SparkSession, config: Config, handover: str, positions: dict[int, int]) -> DataFrame:
    """Return the operator's input as a stream of (shard_key, row): the requests, and the rows of `kafka_log_offsets`.

    `handover` is as in `source_options`, and `positions` are as in `request_rows`.
    """
    requests = request_rows(spark, config, config.job.partition_requests_topic, positions)
    register_source(spark, SOURCE_NAME, READER, SOURCE_SCHEMA)
    log = spark.readStream.format(SOURCE_NAME).option("options", json.dumps(source_options(config, handover))).load()
    return log.select("shard_key", "row").unionByName(keyed_by_shard(requests, config.job.operator_shards))


def source_options(config: Config, handover: str) -> dict[str, Any]:
    """Return the options of the source `kafka_log_offsets`. The caller passes them to it as JSON, in one option.

    `handover` is the path of the handover file, by which batches pass data to the source.
    """
    job = config.job
    return {
        "kafka": python_properties(job.bootstrap_servers, job.kafka),
        "tables": {spec.name: table_path(job.tables_path, spec) for spec in _READ},
        "storage_options": job.delta_options,
        "hand_over": handover,
        "shards": job.operator_shards,
        "requests_topic": job.partition_requests_topic,
        "poll_ms": job.log_poll_interval_ms,
        "idle_poll_ms": job.log_idle_poll_interval_ms,
        "linger_ms": job.request_linger_ms,
        "block_ms": IDLE_BLOCK_MS,
        "deletion_grace_ms": job.topic_deletion_grace_ms,
        "job_config": file_values(config),
        "tables_path": job.tables_path,
    }


def share_partition_outputs(spark: SparkSession, config: Config, handover: str, positions: dict[int, int]) -> DataFrame:
    """Return the query without its sink. Its only column `output` has the output of the operator.

    `handover` and `positions` are as in `share_partition_rows`.
    """
    records = SnapshotRules(
        config.coordinator.snapshot_update_records_per_snapshot,
        config.coordinator.cold_partition_snapshot_interval_ms,
    )
    return (
        share_partition_rows(spark, config, handover, positions)
        .groupBy("shard_key")
        .applyInPandasWithState(
            share_partition_operator(records, config), OUTPUT_SCHEMA, STATE_SCHEMA, "update", "NoTimeout"
        )
    )
