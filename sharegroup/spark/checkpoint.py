"""What a checkpoint folder tells before its query starts."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


def is_local(spark: SparkSession, checkpoint: str) -> bool:
    """Whether a checkpoint folder is on a local disk."""
    jvm: Any = spark._jvm
    file_system = jvm.org.apache.hadoop.fs.Path(checkpoint).getFileSystem(spark._jsc.hadoopConfiguration())
    return str(file_system.getUri().getScheme()) == "file"


def checkpoint_query_id(spark: SparkSession, checkpoint: str) -> str | None:
    """The id (a UUID) of the query whose checkpoint it is, on any Hadoop file system; None for one without a batch."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/metadata")
    offsets = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/offsets")
    file_system = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not (file_system.exists(path) and file_system.exists(offsets) and file_system.listStatus(offsets)):
        return None
    stream = file_system.open(path)
    try:
        text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return str(json.loads(text)["id"])
