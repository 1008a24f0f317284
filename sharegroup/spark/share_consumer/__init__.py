"""A Spark job as a member of a share group: see `ShareConsumer`.

Theory of operation
-------------------
    driver's Python                                        Python source          Spark
    Member (one thread)        -- offer file (a batch) -->  claims it        -->  micro-batch, offset log
      heartbeats, fetches,                                                          |
      read-ahead, renewals    <-- the batch runs in foreachBatch: BatchRunner  <----+
                                     records by Spark's Kafka reader, handle(), acknowledge

The member acquires ranges ahead of the running batch. It offers the next batch as a file to the source, which is
another process. The source claims the file by renaming it, so both sides agree on its owner. Then the ranges are in
Spark's offset log, and the batch will run, now or after a restart. If a range is not claimed before half of its lock
duration has passed, the member returns it (`unacquire`). This does not count as a delivery. A slow handler therefore
delays only its own batch, as long as the batch does not use up the group's limit on record locks. A hung handler loses
its records after `max_processing_ms`, because their locks are no longer renewed.

When Spark repeats a batch after a restart, the member first renews the locks of its ranges. Ranges that the responses
do not list as renewed were finished, or other members have acquired them since, so the handler does not receive them.
The responses contain the current delivery counts, which the acknowledgements must contain. If the group does not allow
renewals, this check is not possible, and other members may have records that the earlier process released. In that case
the whole batch is skipped, and its records become available again when their locks expire.

A topic that is deleted and created again under the same name is a different topic. Ranges of the old topic are
discarded when the assignment names the new topic, or when the job responds with UNKNOWN_TOPIC_ID. A running batch with
such ranges counts as lost.

Modules, here and in `sharegroup.member`:

    without I/O     ranges (data), membership, fetch_demands, acknowledgement_round (the protocol), held_batches (the
                    ranges that the member holds), member_logic and batch_calls (the combination as one member),
                    batch_plan, acquired_batch, acknowledgements
    Kafka, thread   row_channel (Kafka), offer_file, member (the thread)
    Spark           source, records, batch_runner, consumer, consumer_query, lock_guard, delta_sink
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch
    from sharegroup.spark.share_consumer.consumer import ShareConsumer
    from sharegroup.spark.share_consumer.consumer_query import ShareConsumerQuery
    from sharegroup.spark.share_consumer.delta_sink import DeltaSink

__all__ = ["AcquiredBatch", "DeltaSink", "ShareConsumer", "ShareConsumerQuery"]

_MODULES = {
    "AcquiredBatch": "acquired_batch",
    "DeltaSink": "delta_sink",
    "ShareConsumer": "consumer",
    "ShareConsumerQuery": "consumer_query",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
