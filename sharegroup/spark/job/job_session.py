"""The main job's session: what a micro-batch of few, narrow rows needs."""

from __future__ import annotations

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from sharegroup.config import Config
from sharegroup.spark.job.checkpoint import is_local
from sharegroup.spark.session import build_session

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
#: Above this, more tasks cost more than they bring as a rule: a batch has a row for each request, not for each record.
_MAX_SHUFFLE_PARTITIONS = 8
#: Spark renames checkpoint files by Hadoop's FileContext, which on a local disk runs ten processes for each micro-batch
#: (`readlink`, `chmod`). There a plain rename is atomic as well; elsewhere Spark knows best. (On S3 a plain rename puts
#: no file in another one's place, as a batch has to that is run again.)
_LOCAL_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: By its own defaults Hadoop tries for two minutes to reach S3, and for hours where nothing comes back; as long the job
#: could not even be told to stop. A store that is away is for the supervisor to outlast.
_S3_TRIES = {"fs.s3a.attempts.maximum": "2", "fs.s3a.retry.limit": "2", "fs.s3a.connection.timeout": "20s"}
_CHECKPOINT_FILES_KEY = "spark.sql.streaming.checkpointFileManagerClass"


def job_session(config: Config) -> SparkSession:
    """The session; what `spark-submit --conf` says goes over what is set here, but not over `shuffle.partitions`."""
    SparkContext._ensure_initialized()  # it is the JVM that knows what spark-submit was told
    given = SparkConf()
    spark = build_session(
        "share-groups",
        extra={
            key: value
            for key, value in {
                "spark.sql.streaming.minBatchesToRetain": "20",
                "spark.databricks.delta.snapshotPartitions": "1",
            }.items()
            if not given.contains(key)
        },
        storage_options={**_S3_TRIES, **config.job.tables_storage_options},
    )
    if config.job.shuffle_partitions:
        spark.conf.set(_SHUFFLE_PARTITIONS, str(config.job.shuffle_partitions))
    elif not given.contains(_SHUFFLE_PARTITIONS):
        cores = spark.sparkContext.defaultParallelism
        spark.conf.set(_SHUFFLE_PARTITIONS, str(max(1, min(_MAX_SHUFFLE_PARTITIONS, cores))))
    if not given.contains(_CHECKPOINT_FILES_KEY) and is_local(spark, config.job.checkpoint_path):
        spark.conf.set(_CHECKPOINT_FILES_KEY, _LOCAL_CHECKPOINT_FILES)
    return spark
