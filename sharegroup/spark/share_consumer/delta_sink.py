"""`DeltaSink`: a handler that appends records to a Delta table exactly once.

A record that was appended but not acknowledged is delivered again, in a repeated batch or in another one. The sink
reads which keys (topic id, topic, partition, offset) the table has and omits their records. It checks these keys:

- In a repeated batch, the keys of all records. An earlier run of the batch may have appended any of them. Another
  member may also have acquired and appended a record between the two runs.
- In other batches, the keys of records with a delivery count above 1. A count of 1 means that no member has begun to
  process the record before. The count is lowered only when a record is returned unprocessed.

Nothing is appended without the locks (`lock_guard`), because the next member that gets the records might check the
table before the append. Delta's transaction id only prevents that one process appends a batch twice. Each process that
runs the batch uses another transaction id, because its run may have other records. With the same id, Delta would skip
them.

Exactly once has these requirements:

- A read of the table returns its last commit, and records are not deleted while they can be delivered again.
- Only `DeltaSink`s of one group append to the table. The sink would omit records that another group has appended.
- Delivery counts continue. If an administrator resets the group's offsets or deletes the group, records are delivered
  for the first time again, and are appended again.
- One process at a time runs with a checkpoint, as Spark requires too.
- On S3 only one driver appends to the table, or Delta has a LogStore for several drivers. With Delta's default
  LogStore, several drivers can lose a commit.
- Between the last Spark job of a write and the commit, a driver is not suspended for longer than its locks last.
  Otherwise another member that gets the records in that time can append them too.
- No topic is deleted and created again under its name while a batch reads it. Spark reads by name. Until the
  share-group job has detected the change, Spark can return records of the new topic as those of the old one.
"""

import functools
from collections.abc import Sequence

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from sharegroup.member.batch_plan import plan_reads
from sharegroup.member.ranges import HeldRange
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch, ranges_delivered_before, transaction_id
from sharegroup.spark.share_consumer.consumer import ShareConsumer
from sharegroup.spark.share_consumer.lock_guard import while_locks_held
from sharegroup.spark.share_consumer.records import MAX_CASES, merged_pieces

KEY = ["topic_id", "topic", "partition", "offset"]


class DeltaSink:
    """A handler that appends each record exactly once to the Delta table at `path`.

    Start it with `consumer.start(DeltaSink(consumer, path))`.

    The table has the records' columns, `topic_id` and `batch_id`. Members of a group may share a table, because their
    locks keep their records separate. A batch that exceeds the consumer's `max_processing_ms` before it is written, or
    that has lost its locks, fails with LocksLostError and is released.
    """

    def __init__(self, consumer: ShareConsumer, path: str) -> None:
        self._consumer, self._path = consumer, path

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Append the batch's records except those that an earlier run or delivery has appended.

        Raises LocksLostError if the member has lost locks of the batch before the append.
        """
        batch = self._consumer.batch
        with while_locks_held(records.sparkSession, lambda: self._consumer.holds_batch):
            rows = records.withColumn("topic_id", _topic_id(batch)).withColumn("batch_id", F.lit(batch_id).cast("long"))
            is_there = DeltaTable.isDeltaTable(records.sparkSession, self._path)
            redelivered = ranges_delivered_before(batch) if is_there else []
            (
                (self._without_present(rows, redelivered) if redelivered else rows)
                .write.format("delta")
                .mode("append")
                .option("txnAppId", transaction_id(batch))
                .option("txnVersion", batch_id)
                .save(self._path)
            )

    def _without_present(self, rows: DataFrame, redelivered: Sequence[HeldRange]) -> DataFrame:
        present = self._present(rows.sparkSession, redelivered).alias("present")
        same = [F.col(f"new.{name}") == F.col(f"present.{name}") for name in KEY]
        return rows.alias("new").join(present, same, "left_anti")

    def _present(self, spark: SparkSession, redelivered: Sequence[HeldRange]) -> DataFrame:
        """Return the keys that the table contains in the ranges `redelivered`, and possibly other keys of the table."""
        pieces = [piece[:4] for piece in merged_pieces(held._replace(delivery_count=0) for held in redelivered)]
        if len(pieces) > MAX_CASES:  # the predicate would be too long; keys beyond those required do no harm
            pieces = [
                (topic, partition, *envelope)
                for read in plan_reads(redelivered)
                for (topic, _, partition), envelope in read.items()
            ]
        inside = functools.reduce(Column.__or__, [_inside(*piece) for piece in pieces])
        table = spark.read.format("delta").load(self._path)
        return table.where(inside).select(*KEY)


def _topic_id(batch: AcquiredBatch) -> Column:
    """Return a column with the id of each record's topic. In one batch, a topic name has only one topic id."""
    topic_ids = sorted({(held.topic, held.topic_id) for held in batch.ranges})
    if len(topic_ids) == 1:
        return F.lit(topic_ids[0][1])
    return F.create_map(*(F.lit(text) for pair in topic_ids for text in pair))[F.col("topic")]


def _inside(topic: str, partition: int, first: int, last: int) -> Column:
    return (F.col("topic") == topic) & (F.col("partition") == partition) & F.col("offset").between(first, last)
