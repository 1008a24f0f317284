"""The bare micro-batch beside the job's: Kafka - applyInPandasWithState - noop sink, in the job's own session.

A spark-submit script. Its rows have the job's size and its keys the job's keys, but there is nothing to parse, one
number of state for each key, and nothing is written. Each batch takes exactly `--rows` rows of a topic filled before.
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.state import GroupState

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sharegroup.config import load_config
from sharegroup.kafka_clients.kafka_clients import spark_options
from sharegroup.spark.job.job_session import job_session

NAME = "bare"
RUNNING = "the bare query is running"


def count(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The least that an operator with state can do."""
    rows = sum(len(frame) for frame in frames) + (state.get[0] if state.exists else 0)
    state.update((rows,))
    yield pd.DataFrame({"output": [f"{key[0]} {rows}"]})


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--rows", required=True, type=int)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    config = load_config(arguments.config)
    spark = job_session(config)
    rows = (
        spark.readStream.format("kafka")
        .options(**spark_options(config.job.bootstrap_servers, config.job.kafka))
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", arguments.rows)
        .option("failOnDataLoss", "false")
        .load()
    )
    query = (
        rows.select(F.col("key").cast("string").alias("key"), F.col("value").cast("string").alias("row"))
        .groupBy("key")
        .applyInPandasWithState(count, "output STRING", "rows LONG", "update", "NoTimeout")
        .writeStream.queryName(NAME)
        .outputMode("update")
        .option("checkpointLocation", arguments.checkpoint)
        .trigger(processingTime=f"{config.job.trigger_interval_ms} milliseconds")
        .format("noop")
        .start()
    )
    logging.getLogger(NAME).info(RUNNING)
    query.awaitTermination()
    threading.Event().wait()


if __name__ == "__main__":
    main()
