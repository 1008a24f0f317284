"""The main job's session, configured for micro-batches of few, narrow rows."""

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from sharegroup.config import Config
from sharegroup.spark.job.checkpoint import is_local
from sharegroup.spark.session import build_session

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
#: More tasks rarely pay off, because a batch has a row for each request, not for each record.
_MAX_SHUFFLE_PARTITIONS = 8
#: Spark renames checkpoint files with Hadoop's FileContext, which on a local disk runs ten processes (`readlink`,
#: `chmod`) for each micro-batch. A plain rename is atomic on a local disk. On other file systems Spark's default is
#: kept: on S3, for example, a plain rename cannot replace a file, which a repeated batch requires.
_LOCAL_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: With Hadoop's defaults a request to an unreachable S3 is retried for two minutes, or for hours if nothing responds.
#: The job could not be stopped in this time. The supervisor handles an unavailable store instead.
_S3_TRIES = {"fs.s3a.attempts.maximum": "2", "fs.s3a.retry.limit": "2", "fs.s3a.connection.timeout": "20s"}
_CHECKPOINT_FILES_KEY = "spark.sql.streaming.checkpointFileManagerClass"


def job_session(config: Config) -> SparkSession:
    """Return the job's Spark session.

    `spark-submit --conf` overrides the Spark settings of this module, with one exception: `shuffle.partitions` in the
    job's configuration always decides the number of shuffle partitions, unless it is 0.
    """
    SparkContext._ensure_initialized()  # the arguments of spark-submit are in the JVM
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
