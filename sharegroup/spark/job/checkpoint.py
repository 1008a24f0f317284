"""What a checkpoint folder tells before its query starts."""

from __future__ import annotations

import json
import uuid
from typing import Any

from pyspark.sql import SparkSession

from sharegroup.commit.stale_checkpoint import Checkpoint


def is_local(spark: SparkSession, checkpoint: str) -> bool:
    """Whether a checkpoint folder is on a local disk."""
    jvm: Any = spark._jvm
    file_system = jvm.org.apache.hadoop.fs.Path(checkpoint).getFileSystem(spark._jsc.hadoopConfiguration())
    return str(file_system.getUri().getScheme()) == "file"


#: Spark's file with the query's id; Spark makes one where there is none.
_METADATA = "metadata"


def read_checkpoint(spark: SparkSession, checkpoint: str) -> Checkpoint | None:
    """The checkpoint in a folder, on any Hadoop file system; None where no query has begun one."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/{_METADATA}")
    offsets = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/offsets")
    file_system = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not file_system.exists(path):
        return None
    stream = file_system.open(path)
    try:
        text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    statuses = file_system.listStatus(offsets) if file_system.exists(offsets) else []
    names = [str(status.getPath().getName()) for status in statuses]
    newest = max((int(name) for name in names if name.isdecimal()), default=-1)
    return Checkpoint(checkpoint, str(json.loads(text)["id"]), newest)


def begin_checkpoint(spark: SparkSession, checkpoint: str) -> str:
    """Begin a checkpoint in a folder that has none, as Spark would; the id that a query has with it."""
    begun = read_checkpoint(spark, checkpoint)
    if begun is not None:
        return begun.query_id
    query_id = str(uuid.uuid4())
    jvm: Any = spark._jvm
    path, scratch = (jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/{name}") for name in (_METADATA, f".{query_id}"))
    file_system = path.getFileSystem(spark._jsc.hadoopConfiguration())
    stream = file_system.create(scratch)
    try:
        jvm.org.apache.commons.io.IOUtils.write(json.dumps({"id": query_id}), stream, "UTF-8")
    finally:
        stream.close()
    file_system.rename(scratch, path)
    return query_id
