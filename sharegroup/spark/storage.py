"""Configures a Spark session for an object store, with `tables.storage.options` as Hadoop properties."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from sharegroup.config.keys.storage_options import hadoop_properties

#: Hadoop's scheme for S3 is s3a. These properties map s3 to it unless s3 is configured already (as on EMR). delta-rs
#: accepts both schemes.
_S3_AS_S3A = {
    "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
}


def use_storage(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Apply storage `options` to everything the application reads and writes from now on.

    The options are set in Hadoop's configuration, not in Spark's, so that passwords appear neither on a command line
    nor in `spark.conf`. Values given with `spark-submit --conf spark.hadoop....` take precedence.
    """
    jvm_context: Any = spark.sparkContext._jsc
    hadoop, given = jvm_context.hadoopConfiguration(), spark.sparkContext.getConf()
    for name, value in _S3_AS_S3A.items():
        hadoop.setIfUnset(name, value)
    for name, value in hadoop_properties(options).items():
        if not given.contains(f"spark.hadoop.{name}"):
            hadoop.set(name, value)
