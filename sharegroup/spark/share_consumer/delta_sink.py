"""`DeltaSink`: a handler that appends records to a Delta table exactly once.

A record that was appended but not acknowledged comes back, in a batch that Spark runs again or in another one. It is
looked up in the sink by (topic id, topic, partition, offset), and left out when it is there. What is looked up:

- in a batch that is run again, all of it. Part of it may have been appended by any of the runs before, each of which
  may have held another part of the batch; or by others, who had the records in between.
- in other batches, what has a delivery count above 1. Nobody has begun with the rest: what is given back without
  having been handled is the only thing that lowers the count.

Nothing is appended without the locks (`lock_guard`): who gets the records then would look them up too early. Delta's
transaction id only keeps a batch that a process hands over twice from being there twice. It must not be that of an
earlier run: Delta would skip an append whose records are not those of that run.

So exactly once relies on this:

- the sink can be read as it was last committed, and what is in it stays there while its records can come back;
- only `DeltaSink`s of one group append to it: the records of another group would pass for its own;
- delivery counts go on. When an administrator resets the group's offsets, or deletes the group, records are delivered
  for the first time once more, and are appended once more;
- one process runs with a checkpoint at a time, which Spark relies on too;
- on S3 one driver alone appends to the sink, or Delta has a LogStore for more: by its usual one a commit can get lost;
- a driver does not stand still between the last job of its write and the commit for longer than its locks last: who
  gets the records in that time can append them too;
- topics are not made again under their names while a batch reads them: Spark reads by name, and can take up records of
  the new topic for those of the old one until the share-group job has noticed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from sharegroup.member.batch_plan import reads_of
from sharegroup.member.ranges import HeldRange
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch, delivered_before, transaction_of
from sharegroup.spark.share_consumer.consumer import ShareConsumer
from sharegroup.spark.share_consumer.lock_guard import only_while_held
from sharegroup.spark.share_consumer.records import MAX_CASES, merged_pieces

KEY = ["topic_id", "topic", "partition", "offset"]


class DeltaSink:
    """`consumer.start(DeltaSink(consumer, path))`. The table has the records' columns, `topic_id` and `batch_id`.

    Members of a group may share a table; their locks keep them apart. A batch that is not written after the consumer's
    `max_processing_ms`, or that has lost its locks, fails with LocksLostError and is released.
    """

    def __init__(self, consumer: ShareConsumer, path: str) -> None:
        self._consumer, self._path = consumer, path

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Append the batch's records, but not those that are in the table by an earlier run or delivery."""
        batch = self._consumer.batch
        with only_while_held(records.sparkSession, lambda: self._consumer.holds_batch):
            rows = records.withColumn("topic_id", _topic_id(batch)).withColumn("batch_id", F.lit(batch_id).cast("long"))
            is_there = DeltaTable.isDeltaTable(records.sparkSession, self._path)
            redelivered = delivered_before(batch) if is_there else []
            (
                (self._without_present(rows, redelivered) if redelivered else rows)
                .write.format("delta")
                .mode("append")
                .option("txnAppId", transaction_of(batch))
                .option("txnVersion", batch_id)
                .save(self._path)
            )

    def _without_present(self, rows: DataFrame, redelivered: Sequence[HeldRange]) -> DataFrame:
        present = self._present(rows.sparkSession, redelivered).alias("present")
        same = [F.col(f"new.{name}") == F.col(f"present.{name}") for name in KEY]
        return rows.alias("new").join(present, same, "left_anti")

    def _present(self, spark: SparkSession, redelivered: Sequence[HeldRange]) -> DataFrame:
        """The keys of redelivered records that the sink has."""
        pieces = [piece[:4] for piece in merged_pieces(held._replace(delivery_count=0) for held in redelivered)]
        if len(pieces) > MAX_CASES:  # too long a predicate; more keys than needed do no harm
            pieces = [
                (topic, partition, *envelope)
                for read in reads_of(redelivered)
                for (topic, _, partition), envelope in read.items()
            ]
        inside = functools.reduce(Column.__or__, [_inside(*piece) for piece in pieces])
        table = spark.read.format("delta").load(self._path)
        return table.where(inside).select(*KEY)


def _topic_id(batch: AcquiredBatch) -> Column:
    """The id of each record's topic; a batch has one topic of a name."""
    topic_ids = sorted({(held.topic, held.topic_id) for held in batch.ranges})
    if len(topic_ids) == 1:
        return F.lit(topic_ids[0][1])
    return F.create_map(*(F.lit(text) for pair in topic_ids for text in pair))[F.col("topic")]


def _inside(topic: str, partition: int, first: int, last: int) -> Column:
    return (F.col("topic") == topic) & (F.col("partition") == partition) & F.col("offset").between(first, last)
