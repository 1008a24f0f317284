"""How a session reaches an object store: `tables.storage.options` as Hadoop's properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from sharegroup.config.keys.storage_options import hadoop_properties

#: Hadoop knows S3 as s3a. Where nothing else is set for s3 (as on EMR), it is the same; delta-rs takes both.
_S3_AS_S3A = {
    "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
}


def use_storage(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Set what `options` say for whatever the application reads and writes from now on.

    They are set in Hadoop's configuration, not in Spark's: passwords among them are on no command line and in no
    `spark.conf`. What `spark-submit --conf spark.hadoop....` says goes first.
    """
    jvm_context: Any = spark.sparkContext._jsc
    hadoop, given = jvm_context.hadoopConfiguration(), spark.sparkContext.getConf()
    for name, value in _S3_AS_S3A.items():
        hadoop.setIfUnset(name, value)
    for name, value in hadoop_properties(options).items():
        if not given.contains(f"spark.hadoop.{name}"):
            hadoop.set(name, value)
