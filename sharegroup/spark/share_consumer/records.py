"""Reads the records of a batch with Spark's Kafka reader, and converts a handler's result to an Arrow table."""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import IntegralType, StringType

from sharegroup.member.batch_plan import plan_reads
from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.spark.share_consumer.acknowledgements import COLUMNS, InvalidResultError
from sharegroup.types import OffsetRange

#: Up to this number of ranges, each record is compared with each range. With more ranges, records and ranges are
#: joined.
MAX_CASES = 32
#: The Spark setting with the names of the data sources that a batch query reads with their version 1 API.
_V1_SOURCES = "spark.sql.sources.useV1SourceList"

Piece = tuple[str, int, int, int, int]  # topic, partition, first offset, last offset, delivery count


def acquired_records(
    spark: SparkSession, ranges: Sequence[HeldRange], options: Mapping[str, str], include_headers: bool = True
) -> DataFrame:
    """Return the records of the ranges with the columns of Spark's Kafka source and `delivery_count` (INT).

    `options` are the options of Spark's Kafka reader. The isolation level is that of the ranges, which is the same for
    all ranges of a batch. One or more reads cover the ranges (`plan_reads`). A read covers one interval of each of its
    partitions. If an interval contains offsets between two ranges, the records at these offsets are filtered out. Each
    read is divided among all executor cores, even if it has few partitions.
    """
    reads = plan_reads(ranges)
    with _kafka_source_v2(spark):
        frames = [_read(spark, read, with_isolation_level(options, ranges), include_headers) for read in reads]
    records = functools.reduce(DataFrame.unionByName, frames)
    pieces = merged_pieces(ranges)
    return _with_delivery_count(spark, records, pieces, _is_exact(reads, ranges)).drop("first_offset", "last_offset")


def with_isolation_level(options: Mapping[str, str], ranges: Sequence[HeldRange]) -> dict[str, str]:
    """Return the reader's options with the isolation level of the ranges, which the group configures."""
    return {**options, "kafka.isolation.level": "read_committed" if ranges[0].read_committed else "read_uncommitted"}


def merged_pieces(ranges: Iterable[HeldRange]) -> list[Piece]:
    """Convert ranges to pieces, in order. Adjacent ranges with the same delivery count become one piece."""
    pieces: list[Piece] = []
    for held in sorted(ranges):
        topic, partition, (first, last, count) = held.topic, held.partition, held.acquired_range
        if pieces and pieces[-1][:2] == (topic, partition) and pieces[-1][3] + 1 == first and pieces[-1][4] == count:
            pieces[-1] = (*pieces[-1][:3], last, count)
        else:
            pieces.append((topic, partition, first, last, count))
    return pieces


def result_table(result: DataFrame) -> pa.Table:
    """Return a handler's result with the columns COLUMNS.

    Raises InvalidResultError if a column is missing or has the wrong type. Also raises the error of Spark if the
    evaluation of the DataFrame fails.
    """
    fields = {field.name.lower(): field for field in result.schema.fields}
    missing = [name for name in COLUMNS if name not in fields]
    if missing:
        raise InvalidResultError(f"the handler's result lacks {', '.join(missing)}; it must have {', '.join(COLUMNS)}")
    kinds: dict[str, tuple[type, ...]] = {
        "topic": (StringType,),
        "partition": (IntegralType,),
        "offset": (IntegralType,),
        "acknowledge_type": (StringType, IntegralType),
    }
    for name, allowed in kinds.items():
        if not isinstance(fields[name].dataType, allowed):
            raise InvalidResultError(
                f"in the handler's result, {name} has the wrong type {fields[name].dataType.simpleString()}"
            )
    return result.select(
        F.col("topic"), F.col("partition").cast("long"), F.col("offset").cast("long"), F.col("acknowledge_type")
    ).toArrow()


@contextmanager
def _kafka_source_v2(spark: SparkSession) -> Iterator[None]:
    """In the block, read Kafka with Spark's data source API version 2, as streaming queries do.

    Version 1, the default of batch queries, creates a `Row` for each record, which is 20 % slower. `spark` is the
    session of one query, so no other reads are affected.
    """
    before = spark.conf.get(_V1_SOURCES)
    assert before is not None
    spark.conf.set(_V1_SOURCES, ",".join(name for name in before.split(",") if name.strip().lower() != "kafka"))
    try:
        yield
    finally:
        spark.conf.set(_V1_SOURCES, before)


def _read(
    spark: SparkSession,
    read: Mapping[AssignedPartition, OffsetRange],
    options: Mapping[str, str],
    include_headers: bool,
) -> DataFrame:
    assign: dict[str, list[int]] = {}
    starting: dict[str, dict[str, int]] = {}
    ending: dict[str, dict[str, int]] = {}
    for (topic, _, partition), (first, last) in read.items():
        assign.setdefault(topic, []).append(partition)
        starting.setdefault(topic, {})[str(partition)] = first
        ending.setdefault(topic, {})[str(partition)] = last + 1
    return (
        spark.read.format("kafka")
        .options(**options)
        .option("assign", json.dumps(assign))
        .option("startingOffsets", json.dumps(starting))
        .option("endingOffsets", json.dumps(ending))
        .option("failOnDataLoss", "false")  # records deleted by retention have also left the share-partition
        .option("includeHeaders", str(include_headers).lower())
        .option("minPartitions", max(len(read), spark.sparkContext.defaultParallelism))
        .load()
    )


def _is_exact(reads: Iterable[Mapping[AssignedPartition, OffsetRange]], ranges: Iterable[HeldRange]) -> bool:
    """Return whether the reads contain no other offsets than the ranges."""
    read = sum(last - first + 1 for envelopes in reads for first, last in envelopes.values())
    return read == sum(held.size for held in ranges)


def _with_delivery_count(spark: SparkSession, records: DataFrame, pieces: Sequence[Piece], is_exact: bool) -> DataFrame:
    if is_exact and len({count for *_, count in pieces}) == 1:
        return records.withColumn("delivery_count", F.lit(pieces[0][4]).cast("int"))
    if len(pieces) <= MAX_CASES:
        counted = records.withColumn("delivery_count", F.coalesce(*map(_case, pieces)))
        return counted if is_exact else counted.where("delivery_count IS NOT NULL")
    schema = "topic STRING, partition INT, first_offset LONG, last_offset LONG, delivery_count INT"
    table = F.broadcast(spark.createDataFrame(list(pieces), schema)).alias("piece")
    same = (
        (F.col("record.topic") == F.col("piece.topic"))
        & (F.col("record.partition") == F.col("piece.partition"))
        & F.col("record.offset").between(F.col("piece.first_offset"), F.col("piece.last_offset"))
    )
    return records.alias("record").join(table, same).select("record.*", "piece.delivery_count")


def _case(piece: Piece) -> Column:
    topic, partition, first, last, count = piece
    inside = (F.col("topic") == topic) & (F.col("partition") == partition) & F.col("offset").between(first, last)
    return F.when(inside, F.lit(count).cast("int"))
