"""A topic into a Delta table, plainly and through a share group, in turns: the spark-submit script of B2.

Both in one warm session, in micro-batches of so many records. Plainly: Spark's Kafka source and Delta sink. Through a
share group: `ShareConsumer` with `DeltaSink`; the job runs beside it and stands still while the plain copy is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sharegroup.spark import DeltaSink, ShareConsumer, build_session
from tests.benchmarks.process_tree import ProcessTree

_TIMEOUT_S = 600


class CountingSink:
    """A `DeltaSink` that tells when it has appended so many records."""

    def __init__(self, consumer: ShareConsumer, path: str, records: int) -> None:
        self._consumer, self._sink, self._left = consumer, DeltaSink(consumer, path), records
        self.batches: list[dict[str, float]] = []
        self.done = threading.Event()

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Append a batch, and note when that began and ended."""
        begin = time.time()
        self._sink(records, batch_id)
        count = sum(held.size for held in self._consumer.batch.ranges)
        self.batches.append({"batch_id": batch_id, "records": count, "begin": begin, "end": time.time()})
        self._left -= count
        if self._left <= 0:
            self.done.set()


def plain(spark: SparkSession, bootstrap_servers: str, topic: str, directory: Path, batch: int) -> dict[str, object]:
    """Copy the topic; seconds from the query's start to its end after its last commit."""
    begin = time.time()
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", batch)
        .load()
        .writeStream.format("delta")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "table"))
    )
    query.awaitTermination()
    return {"seconds": time.time() - begin}


def share(
    spark: SparkSession,
    bootstrap_servers: str,
    topic: str,
    directory: Path,
    group_id: str,
    records: int,
    batch: int,
) -> dict[str, object]:
    """The same through a share group: seconds from its assignment to Spark's commit of the last accepted batch."""
    join = time.time()
    checkpoint = directory / "checkpoint"
    consumer = ShareConsumer(
        spark, bootstrap_servers=bootstrap_servers, group_id=group_id, topics=[topic], checkpoint=str(checkpoint),
        max_records=batch,
    )  # fmt: skip
    sink = CountingSink(consumer, str(directory / "table"), records)
    query = consumer.start(sink)
    try:
        _await(lambda: query.assignment, query)
        begin = time.time()
        _await(sink.done.is_set, query)
        committed = checkpoint / "commits" / str(int(sink.batches[-1]["batch_id"]))
        _await(committed.exists, query)
        end = time.time()
    finally:
        query.stop()
    for batch in sink.batches:
        batch["begin"] -= begin
        batch["end"] -= begin
    return {"seconds": end - begin, "join_s": begin - join, "batches": sink.batches}


def _await(condition: object, query: object) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():  # type: ignore[operator]
        if not query.is_active or time.monotonic() > deadline:  # type: ignore[attr-defined]
            raise RuntimeError("the share consumer has ended, or takes for ever")
        time.sleep(0.01)  # polls another thread and a file


def main() -> None:
    """Warm up, then run the turns that count; their times go to `--result` as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topics", required=True, nargs=2, metavar=("WARM_UP", "MEASURED"))
    parser.add_argument("--records", required=True, type=int, nargs=2)
    parser.add_argument("--batch", required=True, type=int, help="most records of a micro-batch")
    parser.add_argument("--groups", required=True, nargs="+", help="one for each turn")
    parser.add_argument("--warm-up-turns", required=True, type=int, help="how many of them, first, do not count")
    parser.add_argument("--directory", required=True, type=Path)
    parser.add_argument("--job-pid", required=True, type=int)
    parser.add_argument("--result", required=True, type=Path)
    options = parser.parse_args()
    spark = build_session("copies")
    found = []
    for turn, group_id in enumerate(options.groups):
        topic, records = (options.topics[turn > 0], options.records[turn > 0])
        with ProcessTree(options.job_pid).held():
            plainly = plain(spark, options.bootstrap_servers, topic, options.directory / f"plain-{turn}", options.batch)
        shared = share(
            spark,
            options.bootstrap_servers,
            topic,
            options.directory / f"share-{turn}",
            group_id,
            records,
            options.batch,
        )
        for kind in ("plain", "share"):
            _check(spark, options.directory / f"{kind}-{turn}" / "table", records)
        found.append({"plain": plainly, "share": shared})
    options.result.write_text(json.dumps(found[options.warm_up_turns :]))
    spark.stop()


def _check(spark: SparkSession, table: Path, records: int) -> None:
    """Fail unless the table has each record once."""
    rows = spark.read.format("delta").load(str(table)).select("partition", "offset")
    if (rows.count(), rows.distinct().count()) != (records, records):
        raise AssertionError(f"{table} has {rows.count()} rows, {rows.distinct().count()} different, not {records}")


if __name__ == "__main__":
    main()
