"""Access to a query's checkpoint folder before the query starts: read, begin and discard a checkpoint."""

import json
import uuid
from typing import Any

from pyspark.sql import SparkSession

from sharegroup.job.lead.checkpoint_mark import MARK, MarkFile
from sharegroup.job.lead.stale_checkpoint import OPERATOR_SHARDS, SHUFFLE_PARTITIONS, Checkpoint

#: Spark's file with the query's id; Spark creates it if it does not exist.
_METADATA = "metadata"
_OFFSETS = "offsets"
#: The other entries of a checkpoint folder, which Spark and `MarkFile` write.
_OTHERS = (_OFFSETS, "commits", "state", "sources", MARK)
#: A setting that is recorded in the offset log. Spark continues with the recorded number, even if the session has
#: another one, because this is the number of parts of the state.
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def is_local(spark: SparkSession, checkpoint: str) -> bool:
    """Return whether a checkpoint folder is on a local disk."""
    file_system, _ = _located(spark, checkpoint)
    return str(file_system.getUri().getScheme()) == "file"


def read_checkpoint(spark: SparkSession, checkpoint: str) -> Checkpoint | None:
    """Return the checkpoint in a folder of any Hadoop file system; None if there is none or its id file is damaged."""
    file_system, path = _located(spark, f"{checkpoint}/{_METADATA}")
    if not file_system.exists(path):
        return None
    try:
        query_id = str(json.loads(_text(spark, file_system, path))["id"])
    except ValueError:  # the machine lost power while the file was written
        return None
    _, offsets = _located(spark, f"{checkpoint}/{_OFFSETS}")
    statuses = file_system.listStatus(offsets) if file_system.exists(offsets) else []
    names = [str(status.getPath().getName()) for status in statuses]
    newest = max((int(name) for name in names if name.isdecimal()), default=-1)
    if newest < 0:
        return Checkpoint(checkpoint, query_id, newest)
    _, entry = _located(spark, f"{checkpoint}/{_OFFSETS}/{newest}")
    mark = MarkFile(checkpoint).read()
    pinned = _pinned(_text(spark, file_system, entry))
    return Checkpoint(checkpoint, query_id, newest, mark.committed if mark else {}, pinned)


def begin_checkpoint(spark: SparkSession, checkpoint: str) -> str:
    """Return the query id of the checkpoint in the folder. If there is no checkpoint, begin one with a new id.

    Spark would write the same file with the id. Here it is written before Spark's query starts, so that the caller
    knows the id. Remains of a discarded checkpoint are removed first, because Spark would continue from them.
    """
    begun = read_checkpoint(spark, checkpoint)
    if begun is not None:
        return begun.query_id
    discard_checkpoint(spark, checkpoint)
    query_id = str(uuid.uuid4())
    jvm: Any = spark._jvm
    file_system, path = _located(spark, f"{checkpoint}/{_METADATA}")
    _, scratch = _located(spark, f"{checkpoint}/.{query_id}")
    stream = file_system.create(scratch)
    try:
        jvm.org.apache.commons.io.IOUtils.write(json.dumps({"id": query_id}), stream, "UTF-8")
    finally:
        stream.close()
    file_system.rename(scratch, path)
    return query_id


def discard_checkpoint(spark: SparkSession, checkpoint: str) -> None:
    """Discard the checkpoint in a folder, if there is one.

    The query's id is deleted first. After a crash at any later point `read_checkpoint` finds no checkpoint, and
    `begin_checkpoint` removes the rest.
    """
    for name in (_METADATA, *_OTHERS):
        file_system, path = _located(spark, f"{checkpoint}/{name}")
        file_system.delete(path, True)


def _located(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the Hadoop file system that has this path, and the path as a Hadoop object."""
    jvm: Any = spark._jvm
    located = jvm.org.apache.hadoop.fs.Path(path)
    return located.getFileSystem(spark._jsc.hadoopConfiguration()), located


def _text(spark: SparkSession, file_system: Any, path: Any) -> str:
    jvm: Any = spark._jvm
    stream = file_system.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def _pinned(entry: str) -> dict[str, int]:
    """Return the numbers of shuffle partitions and shards (`Checkpoint.pinned`) from an entry of the offset log.

    The lines of an entry are a version, the batch's metadata as JSON, and the offset of each source. The offset of the
    source `kafka_log_offsets` contains the number of shards.
    """
    objects = [_json_object(line) for line in entry.splitlines()]
    metadata = objects[1] if len(objects) > 1 else {}
    shards = [number for offset in objects[2:] if isinstance(number := offset.get("shards"), int)]
    shuffle_partitions = int(metadata.get("conf", {}).get(_SHUFFLE_PARTITIONS, 0))
    found = {SHUFFLE_PARTITIONS: shuffle_partitions, OPERATOR_SHARDS: max(shards, default=0)}
    return {key: number for key, number in found.items() if number}


def _json_object(line: str) -> dict[str, Any]:
    """Return the object in a line; an empty one if the line has no JSON object."""
    value = json.loads(line) if line.startswith("{") else {}
    return dict(value)
