"""The group_coordinator query. It reads heartbeats and other requests, and outputs rows of tables and responses."""

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from sharegroup.config import Config
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.spark.queries.operators import OUTPUT_SCHEMA, STATE_SCHEMA, group_coordinator_operator
from sharegroup.spark.queries.share_groups_source import READER, SOURCE_NAME, SOURCE_SCHEMA
from sharegroup.spark.queries.share_partition_query import IDLE_BLOCK_MS, request_rows
from sharegroup.spark.shipping import register_source
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES, table_path

NAME = "group_coordinator"


def source_options(config: Config, handover: str) -> dict[str, Any]:
    """Return the options of the source `share_groups_ticks`. The caller passes them to it as JSON, in one option.

    `handover` is the path of the handover file, by which batches pass data to the source.
    """
    job = config.job
    return {
        "kafka": python_properties(job.bootstrap_servers, job.kafka),
        "tables": {spec.name: table_path(job.tables_path, spec) for spec in GROUP_COORDINATOR_TABLES},
        "storage_options": job.delta_options,
        "hand_over": handover,
        "requests_topic": job.group_requests_topic,
        "poll_ms": job.log_poll_interval_ms,
        "idle_poll_ms": job.log_idle_poll_interval_ms,
        "block_ms": IDLE_BLOCK_MS,
    }


def group_coordinator_outputs(
    spark: SparkSession, config: Config, handover: str, positions: dict[int, int]
) -> DataFrame:
    """Return the query without its sink. Its only column `output` has the output of the operator.

    `handover` is the path of the handover file, by which batches pass data to the query's source. Without a checkpoint,
    the query reads the request topic from `positions`, {partition: offset}. Rows without a group id have the key "",
    and the operator rejects them.
    """
    names = F.from_json("value", "group_id STRING")
    requests = request_rows(spark, config, config.job.group_requests_topic, positions).select(
        F.coalesce(names["group_id"], F.lit("")).alias("group_id"), "row"
    )
    register_source(spark, SOURCE_NAME, READER, SOURCE_SCHEMA)
    ticks = spark.readStream.format(SOURCE_NAME).option("options", json.dumps(source_options(config, handover))).load()
    return (
        ticks.select("group_id", "row")
        .unionByName(requests)
        .groupBy("group_id")
        .applyInPandasWithState(group_coordinator_operator(config), OUTPUT_SCHEMA, STATE_SCHEMA, "update", "NoTimeout")
    )
