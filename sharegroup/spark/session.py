"""The SparkSession, with the settings that the job, downstream jobs, tests and notebooks share."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from sharegroup.spark.shipping import ship_package
from sharegroup.spark.spark_home import find_spark_home
from sharegroup.spark.storage import use_storage

#: Settings of every session. RocksDB uses changelog checkpointing, so that a batch uploads its changes and not the
#: whole state. Batches without data are off, because the sources send a row for each deadline.
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

#: Settings that apply unless they are set already. Delta rebuilds the state of a table's log before each append except
#: the first. Its default of 50 tasks takes four CPU seconds, more than appending half a million records.
_DEFAULTS = {"spark.databricks.delta.snapshotPartitions": "4"}


def build_session(
    app_name: str,
    master: str | None = None,
    jars: Iterable[Path] = (),
    extra: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the existing Spark session, or else a new one, after applying this project's settings.

    Args:
        app_name: the name of a new application.
        master: the Spark master, for local use. Workers then run this process's Python. None under spark-submit.
        jars: the JARs of configuration `spark` in conf/ivy.xml; none are needed under `spark-submit --packages`.
        extra: Spark settings that override those of this module.
        storage_options: options of the tables' object store, with the keys of the job's `tables.storage.options`. S3
            also requires the JARs of configuration `s3`.
    """
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # PySpark defaults to the python3 on the PATH
        os.environ["SPARK_HOME"] = str(find_spark_home())
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
