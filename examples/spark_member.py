"""A Spark job that is a member of a share group. It connects to the brokers and needs no gateway.

    python examples/spark_member.py 127.0.0.1:9092 billing orders data/billed data/member-1

It appends the records of the topic `orders` to the Delta table data/billed until it gets SIGTERM. Start it several
times to share the work, each time with another checkpoint instead of data/member-1.
"""

from __future__ import annotations

import signal
import sys
import threading

from pyspark.sql import DataFrame

from sharegroup.spark import ShareConsumer, build_session
from sharegroup.spark.jars import jars


def main(bootstrap_servers: str, group_id: str, topic: str, sink: str, checkpoint: str) -> None:
    """Append records until SIGTERM."""

    def handle(records: DataFrame, _batch_id: int) -> DataFrame:
        """Append a batch. The returned records are rejected, and all others are accepted."""
        records.write.format("delta").mode("append").save(sink)
        return records.where("length(value) = 0").selectExpr(
            "topic", "partition", "offset", "'reject' AS acknowledge_type"
        )

    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    spark = build_session(f"member of {group_id}", master="local[2]", jars=jars("spark"))
    consumer = ShareConsumer(
        spark, bootstrap_servers=bootstrap_servers, group_id=group_id, topics=[topic], checkpoint=checkpoint
    )
    query = consumer.start(handle)
    print(f"member {query.member_id} is running", flush=True)
    while query.is_active and not stopping.wait(0.5):
        pass
    query.stop()
    query.await_termination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
