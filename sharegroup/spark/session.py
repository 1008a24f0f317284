"""The SparkSession: one place for the settings that the job, the downstream jobs, tests and notebooks share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from sharegroup.spark.shipping import ship_package
from sharegroup.spark.storage import use_storage

#: For every session of this project. RocksDB with changelog checkpointing: a batch uploads what changed, not the whole
#: state. Deadlines come as ticks, so no query ever needs a batch without data.
_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}

#: Delta rebuilds the state of a table's log before each append but the first, by default in 50 tasks: four CPU seconds,
#: more than it takes to append half a million records. Who has set something else, has it.
_DEFAULTS = {"spark.databricks.delta.snapshotPartitions": "4"}


def build_session(
    app_name: str,
    master: str | None = None,
    jars: Iterable[Path] = (),
    extra: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session for this project, or the one there is.

    `master` is for local use, whose workers run with this Python; under spark-submit it stays None. `jars` are the JARs
    of conf/ivy.xml's conf `spark`; under `spark-submit --packages` there is nothing to add. `extra` goes over the
    settings here. `storage_options` are as the job's `tables.storage.options`; S3 needs the JARs of conf `s3` as well.
    """
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # PySpark's own default is the python3 of the PATH
        builder = builder.master(master)
    paths = [str(path) for path in jars]
    if paths:
        builder = builder.config("spark.jars", ",".join(paths))
    for key, value in {**_SETTINGS, **(extra or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    for key, value in _DEFAULTS.items():
        if session.conf.get(key, None) is None:
            session.conf.set(key, value)
    use_storage(session, storage_options or {})
    ship_package(session)
    return session
