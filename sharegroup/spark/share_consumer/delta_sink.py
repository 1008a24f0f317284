"""`DeltaSink`: a handler that appends records to a Delta table exactly once.

Three things make it so (engine trials, E15). A batch that Spark runs again is skipped by Delta's transaction id, which
is the query's *id* and the batch's. A record that was appended but whose acknowledgement was lost comes back in another
batch, with a delivery count above 1: such records are looked up in the sink by (topic, partition, offset) and left out
when they are there. So are all records of a batch that is run again: others may have had them in between. Records
delivered for the first time need no look-up.

And nothing is appended without the locks (`lock_guard`), for who gets the records then looks them up too early.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from sharegroup.spark.share_consumer.batch_plan import reads_of
from sharegroup.spark.share_consumer.batch_runner import AcquiredBatch
from sharegroup.spark.share_consumer.consumer import ShareConsumer
from sharegroup.spark.share_consumer.lock_guard import only_while_held
from sharegroup.spark.share_consumer.ranges import HeldRange
from sharegroup.spark.share_consumer.records import MAX_CASES, merged_pieces

KEY = ["topic", "partition", "offset"]


class DeltaSink:
    """`consumer.start(DeltaSink(consumer, path))`. The table has the records' columns and `batch_id`.

    Members of a group may share a table; their locks keep them apart. A batch that is not written after the consumer's
    `max_processing_ms`, or that has lost its locks, fails with LocksLostError and is released. What remains: a driver
    that stands still between the last job of its write and the commit, for longer than the locks last, and a member
    that gets the records in that time can both append them.
    """

    def __init__(self, consumer: ShareConsumer, path: str) -> None:
        self._consumer, self._path = consumer, path

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Append the batch."""
        batch = self._consumer.batch
        with only_while_held(records.sparkSession, lambda: self._consumer.holds_batch):
            new = self._without_present(records, delivered_before(batch))
            (
                new.withColumn("batch_id", F.lit(batch_id).cast("long"))
                .write.format("delta")
                .mode("append")
                .option("txnAppId", batch.query_id)
                .option("txnVersion", batch_id)
                .save(self._path)
            )

    def _without_present(self, records: DataFrame, redelivered: Sequence[HeldRange]) -> DataFrame:
        spark = records.sparkSession
        if not redelivered or not DeltaTable.isDeltaTable(spark, self._path):
            return records
        return records.join(self._present(spark, redelivered), KEY, "left_anti")

    def _present(self, spark: SparkSession, redelivered: Sequence[HeldRange]) -> DataFrame:
        """The keys of redelivered records that the sink has."""
        pieces = merged_pieces(held._replace(delivery_count=0) for held in redelivered)
        if len(pieces) > MAX_CASES:  # too long a predicate; more keys than needed do no harm
            pieces = [(*key, *envelope, 0) for read in reads_of(redelivered) for key, envelope in read.items()]
        inside = functools.reduce(Column.__or__, [_inside(piece[:4]) for piece in pieces])
        return spark.read.format("delta").load(self._path).where(inside).select(*KEY)


def delivered_before(batch: AcquiredBatch) -> list[HeldRange]:
    """What of the batch the sink may have already."""
    return [held for held in batch.ranges if batch.is_rerun or held.delivery_count > 1]


def _inside(piece: tuple[str, int, int, int]) -> Column:
    topic, partition, first, last = piece
    return (F.col("topic") == topic) & (F.col("partition") == partition) & F.col("offset").between(first, last)
